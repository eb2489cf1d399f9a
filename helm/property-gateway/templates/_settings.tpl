{{/* The settings file: what the values give, and what a pod needs in place of the gateway's own defaults. */}}
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

{{/* The files that the gateway reads. */}}
{{- define "property-gateway.files" -}}
gateway.yaml: |
  {{- include "property-gateway.config" . | nindent 2 }}
{{- with .Values.warmUrls }}
warm.yaml: |
  {{- dict "urls" . | toYaml | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Every setting as the gateway will read it. files/defaults.yaml is config/default.yaml. */}}
{{- define "property-gateway.settings" -}}
{{- $defaults := .Files.Get "files/defaults.yaml" | fromYaml -}}
{{- toYaml (mergeOverwrite $defaults (include "property-gateway.config" . | fromYaml)) -}}
{{- end -}}

{{/* Where answers are kept without Redis; empty is a value. */}}
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

{{/* From the order to stop until the process is gone: noticed, drained, and 5 s at most to close; with some to spare. */}}
{{- define "property-gateway.gracePeriod" -}}
{{- $server := (include "property-gateway.settings" . | fromYaml).server -}}
{{- $delay := include "property-gateway.seconds" $server.stopDelay -}}
{{- $drain := include "property-gateway.seconds" $server.drainTimeout -}}
{{- add $delay $drain 10 -}}
{{- end -}}

{{- define "property-gateway.hasRedis" -}}
{{- with .Values.redis }}{{ if or .existingSecret .url .trial.enabled }}true{{ end }}{{ end -}}
{{- end -}}

{{- define "property-gateway.mostReplicas" -}}
{{- if .Values.autoscaling.enabled }}{{ .Values.autoscaling.maxReplicas | int }}{{ else }}{{ .Values.replicaCount | int }}{{ end -}}
{{- end -}}

{{/* The most that run at once: while rolling, one more than there are otherwise. */}}
{{- define "property-gateway.replicas" -}}
{{- $given := ((.Values.config | default dict).budget | default dict).replicas -}}
{{- $most := include "property-gateway.mostReplicas" . | int -}}
{{- if $given -}}
{{- $given | int -}}
{{- else if include "property-gateway.hasRedis" . -}}
{{- add $most 1 -}}
{{- else -}}
{{- $most -}}
{{- end -}}
{{- end -}}

{{/* Secrets that the chart makes, in one; each may be somebody else's. */}}
{{- define "property-gateway.privateKeySecret" -}}
{{- .Values.privateKey.existingSecret | default (include "property-gateway.fullname" .) -}}
{{- end -}}
{{- define "property-gateway.redisSecret" -}}
{{- .Values.redis.existingSecret | default (include "property-gateway.fullname" .) -}}
{{- end -}}
{{- define "property-gateway.adminTokenSecret" -}}
{{- .Values.adminToken.existingSecret | default (include "property-gateway.fullname" .) -}}
{{- end -}}
{{- define "property-gateway.ownSecret" -}}
{{- $data := dict -}}
{{- with .Values.privateKey }}{{ if and .value (not .existingSecret) }}{{ $_ := set $data .existingSecretKey .value }}{{ end }}{{ end -}}
{{- with .Values.adminToken }}{{ if and .value (not .existingSecret) }}{{ $_ := set $data .existingSecretKey .value }}{{ end }}{{ end -}}
{{- with .Values.redis -}}
{{- if .trial.enabled -}}
{{- $login := ternary (printf ":%s@" .trial.password) "" (ne .trial.password "") -}}
{{- $_ := set $data .existingSecretKey (printf "redis://%s%s-redis:6379" $login (include "property-gateway.fullname" $)) -}}
{{- with .trial.password }}{{ $_ := set $data "redis-password" . }}{{ end -}}
{{- else if and .url (not .existingSecret) -}}
{{- $_ := set $data .existingSecretKey .url -}}
{{- end -}}
{{- end -}}
{{- toYaml $data -}}
{{- end -}}
