{{/* The settings file: the settings from the values, and the defaults of a pod. */}}
{{- define "property-gateway.config" -}}
{{- $config := deepCopy (.Values.config | default dict) -}}
{{- $upstream := $config.upstream | default dict -}}
{{- $caller := $upstream.callerId | default "" | toString -}}
{{- $known := dict
  "service" "propertyservice"
  "userAgent" (printf "property-gateway/%s (%s)" .Chart.AppVersion (regexReplaceAll "[^ -~]" $caller "?"))
-}}
{{- if $upstream.url -}}
{{- $_ := set $known "imageUrl" $upstream.url -}}
{{- $_ := set $known "referrer" $upstream.url -}}
{{- end -}}
{{- $_ := set $config "upstream" (merge $upstream $known) -}}
{{- $_ := set $config "server" (merge ($config.server | default dict) (dict "stopDelay" "5s")) -}}
{{- $_ := set $config "admin" (merge ($config.admin | default dict) (dict "host" "0.0.0.0")) -}}
{{- toYaml $config -}}
{{- end -}}

{{/* The file that the gateway reads. */}}
{{- define "property-gateway.files" -}}
gateway.yaml: |
  {{- include "property-gateway.config" . | nindent 2 }}
{{- end -}}

{{/*
The settings whose change starts new pods: those that a running gateway cannot change, or all of them with reload: restart.
files/reloadable.yaml lists the settings that a running gateway can change.
*/}}
{{- define "property-gateway.restarting" -}}
{{- if eq .Values.reload "restart" -}}
{{- include "property-gateway.files" . -}}
{{- else -}}
{{- $config := include "property-gateway.config" . | fromYaml -}}
{{- range .Files.Get "files/reloadable.yaml" | fromYamlArray -}}
{{- $path := splitList "." . -}}
{{- $section := $config -}}
{{- range initial $path -}}
{{- $section = kindIs "map" $section | ternary (get ($section | default dict) .) dict -}}
{{- end -}}
{{- if kindIs "map" $section -}}
{{- $_ := unset $section (last $path) -}}
{{- end -}}
{{- if empty $section -}}
{{- $_ := unset $config (first $path) -}}
{{- end -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}
{{- end -}}

{{- define "property-gateway.configMap" -}}
{{- .Values.existingConfigMap | default (include "property-gateway.fullname" .) -}}
{{- end -}}

{{/* Every setting as the gateway will read it. files/defaults.yaml is config/default.yaml. */}}
{{- define "property-gateway.settings" -}}
{{- $defaults := .Files.Get "files/defaults.yaml" | fromYaml -}}
{{- toYaml (mergeOverwrite $defaults (include "property-gateway.config" . | fromYaml)) -}}
{{- end -}}

{{/* The directory of the SQLite file, for a gateway without Redis. Empty means none. */}}
{{- define "property-gateway.dataDir" -}}
{{- $config := .Values.config | default dict -}}
{{- if hasKey $config "dataDir" }}{{ $config.dataDir }}{{ else }}/data{{ end -}}
{{- end -}}

{{/* A duration in whole seconds, rounded up. */}}
{{- define "property-gateway.seconds" -}}
{{- $number := regexFind "^[0-9]+" . | int64 -}}
{{- $unit := regexFind "[a-z]+$" . -}}
{{- if eq $unit "ms" -}}
{{- div (add $number 999) 1000 -}}
{{- else -}}
{{- mul $number (get (dict "s" 1 "m" 60 "h" 3600 "d" 86400) $unit | default 1) -}}
{{- end -}}
{{- end -}}

{{/* stopDelay, drainTimeout, at most 5 s to close, and 5 s to spare. */}}
{{- define "property-gateway.stopSeconds" -}}
{{- $server := (include "property-gateway.settings" . | fromYaml).server -}}
{{- $delay := include "property-gateway.seconds" $server.stopDelay -}}
{{- $drain := include "property-gateway.seconds" $server.drainTimeout -}}
{{- add $delay $drain 10 -}}
{{- end -}}

{{- define "property-gateway.hasRedis" -}}
{{- with .Values.redis }}{{ if or .existingSecret .url }}true{{ end }}{{ end -}}
{{- end -}}

{{/* The most pods that the Deployment wants at any time. */}}
{{- define "property-gateway.mostReplicas" -}}
{{- if .Values.autoscaling.enabled }}{{ .Values.autoscaling.maxReplicas | int }}{{ else }}{{ .Values.replicaCount | int }}{{ end -}}
{{- end -}}

{{/* How many pods an update starts before it stops others. Kubernetes rounds a percentage up; its default is 25%. */}}
{{- define "property-gateway.surge" -}}
{{- $strategy := include "property-gateway.strategy" . | fromYaml -}}
{{- if eq ($strategy.type | default "RollingUpdate") "Recreate" -}}
0
{{- else -}}
{{- $surge := "25%" -}}
{{- if hasKey ($strategy.rollingUpdate | default dict) "maxSurge" -}}
{{- $surge = $strategy.rollingUpdate.maxSurge | toString -}}
{{- end -}}
{{- if hasSuffix "%" $surge -}}
{{- $most := include "property-gateway.mostReplicas" . | int -}}
{{- div (add (mul $most (trimSuffix "%" $surge | int)) 99) 100 -}}
{{- else -}}
{{- $surge | int -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The most pods that run at once, also during an update. */}}
{{- define "property-gateway.mostAtOnce" -}}
{{- add (include "property-gateway.mostReplicas" .) (include "property-gateway.surge" .) -}}
{{- end -}}

{{- define "property-gateway.replicas" -}}
{{- $given := ((.Values.config | default dict).budget | default dict).replicas -}}
{{- $given | default (include "property-gateway.mostAtOnce" .) | int | max 1 -}}
{{- end -}}

{{/* The bytes of a size, as settings or Kubernetes write it; 0 for an unknown form. */}}
{{- define "property-gateway.bytes" -}}
{{- $text := kindIs "float64" . | ternary (printf "%.0f" (. | float64)) (toString .) -}}
{{- $units := dict "" 1 "B" 1 "k" 1000 "K" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000
  "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "KiB" 1024 "MiB" 1048576 "GiB" 1073741824 -}}
{{- if regexMatch "^[0-9]+(\\.[0-9]+)?[A-Za-z]*$" $text -}}
{{- $number := regexFind "^[0-9.]+" $text | float64 -}}
{{- printf "%.0f" (mulf $number (get $units (regexFind "[A-Za-z]*$" $text) | default 0 | float64)) -}}
{{- else -}}
0
{{- end -}}
{{- end -}}

{{/* The name of each Secret: the existing one, or the one that the chart creates. */}}
{{- define "property-gateway.privateKeySecret" -}}
{{- .Values.privateKey.existingSecret | default (include "property-gateway.fullname" .) -}}
{{- end -}}
{{- define "property-gateway.redisSecret" -}}
{{- .Values.redis.existingSecret | default (include "property-gateway.fullname" .) -}}
{{- end -}}
{{- define "property-gateway.adminTokenSecret" -}}
{{- $own := include "property-gateway.fullname" . -}}
{{- .Values.adminToken.existingSecret | default (ternary $own (printf "%s-admin-token" $own) (ne .Values.adminToken.value "")) -}}
{{- end -}}
{{/* "true" if the admin port has a token in a Secret, and not in a file that the settings name. */}}
{{- define "property-gateway.hasTokenSecret" -}}
{{- if not (dig "admin" "tokenFile" "" (.Values.config | default dict)) }}true{{ end -}}
{{- end -}}
{{- define "property-gateway.ownSecret" -}}
{{- $data := dict -}}
{{- with .Values.privateKey }}{{ if and .value (not .existingSecret) }}{{ $_ := set $data .existingSecretKey .value }}{{ end }}{{ end -}}
{{- with .Values.adminToken }}{{ if and .value (not .existingSecret) }}{{ $_ := set $data .existingSecretKey .value }}{{ end }}{{ end -}}
{{- range list .Values.redis.auth .Values.redis.sentinelAuth .Values.upstreamProxy -}}
{{- if and .value (not .existingSecret) }}{{ $_ := set $data .existingSecretKey .value }}{{ end -}}
{{- end -}}
{{- with .Values.redis -}}
{{- if and .url (not .existingSecret) -}}
{{- $_ := set $data .existingSecretKey .url -}}
{{- end -}}
{{- end -}}
{{- toYaml $data -}}
{{- end -}}
