{{/* The ports that the egress rules allow, each as a list in YAML. */}}

{{- define "property-gateway.portOfUrl" -}}
{{- $port := regexFind ":[0-9]+$" (urlParse . | dig "host" "") | trimPrefix ":" -}}
{{- $port | default (ternary 443 80 (hasPrefix "https:" .)) -}}
{{- end -}}

{{- define "property-gateway.upstreamPorts" -}}
{{- $upstream := (include "property-gateway.config" . | fromYaml).upstream -}}
{{- $ports := list -}}
{{- range compact (list $upstream.url $upstream.imageUrl .Values.upstreamProxy.value) -}}
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
{{- $url := regexFind ":[0-9]+$" (urlParse .Values.redis.url | dig "host" "") | trimPrefix ":" -}}
{{- $ports = append $ports ($url | default "6379" | int) -}}
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
