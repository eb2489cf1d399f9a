{{/* The ports that the egress rules allow, each as a list in YAML. */}}

{{/* Not with urlParse: its error shows the URL, also the password in it. */}}
{{- define "property-gateway.portOfUrl" -}}
{{- $host := regexReplaceAll "^[a-z]+://(.*@)?([^/?#]*).*$" (trim .) "${2}" -}}
{{- $usual := get (dict "https" 443 "redis" 6379 "rediss" 6379) (splitList ":" . | first) | default 80 -}}
{{- regexFind ":[0-9]+$" $host | trimPrefix ":" | default (toString $usual) -}}
{{- end -}}

{{- define "property-gateway.upstreamPorts" -}}
{{- $upstream := (include "property-gateway.config" . | fromYaml).upstream -}}
{{- $urls := list $upstream.url $upstream.imageUrl .Values.upstreamProxy.value -}}
{{- range .Values.extraEnv -}}
{{- $urls = append $urls (has (upper .name) (list "HTTPS_PROXY" "HTTP_PROXY") | ternary .value "") -}}
{{- end -}}
{{- $ports := list -}}
{{- range compact $urls -}}
{{- $ports = append $ports (include "property-gateway.portOfUrl" . | int) -}}
{{- end -}}
{{- .Values.networkPolicy.upstream.ports | default (uniq $ports) | default (list 443) | toYaml -}}
{{- end -}}

{{/* Only the Sentinels know the port of their master. The rules assume the port in redis.url, or 6379. */}}
{{- define "property-gateway.redisPorts" -}}
{{- $redis := (.Values.config | default dict).redis | default dict -}}
{{- $named := concat ($redis.nodes | default list) (($redis.sentinel | default dict).nodes | default list) -}}
{{- $ports := list -}}
{{- range $named -}}
{{- $ports = append $ports (splitList ":" . | last | int) -}}
{{- end -}}
{{- $ports = append $ports (include "property-gateway.portOfUrl" (.Values.redis.url | default "redis:") | int) -}}
{{- .Values.networkPolicy.redis.ports | default (uniq $ports) | toYaml -}}
{{- end -}}

{{/* The ports of the collector; empty without tracing. OpenTelemetry's default endpoint is http://localhost:4318. */}}
{{- define "property-gateway.tracingPorts" -}}
{{- $env := dict -}}
{{- range .Values.extraEnv -}}
{{- $_ := set $env .name (.value | default "from elsewhere") -}}
{{- end -}}
{{- $endpoint := get $env "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" | default (get $env "OTEL_EXPORTER_OTLP_ENDPOINT") -}}
{{- $exporter := get $env "OTEL_TRACES_EXPORTER" -}}
{{- $isOff := or (eq $exporter "none") (eq (get $env "OTEL_SDK_DISABLED" | lower) "true") -}}
{{- $ports := list -}}
{{- if and (or $endpoint $exporter) (not $isOff) -}}
{{- $ports = list (ternary (include "property-gateway.portOfUrl" $endpoint | int) 4318 (hasPrefix "http" $endpoint)) -}}
{{- end -}}
{{- .Values.networkPolicy.tracing.ports | default $ports | toYaml -}}
{{- end -}}
