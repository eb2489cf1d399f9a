{{/* Parts of the gateway's pod. */}}

{{/* The variables that the chart sets. */}}
{{- define "property-gateway.ownEnv" -}}
- name: CONFIG_FILE
  value: /etc/property-gateway/gateway.yaml
{{- if not (dig "upstream" "privateKeyFile" "" (.Values.config | default dict)) }}
- name: UPSTREAM_PRIVATE_KEY_FILE
  value: /run/secrets/property-gateway/private-key
{{- end }}
- name: REPLICAS
  value: {{ include "property-gateway.replicas" . | quote }}
# The image has a DATA_DIR of its own, which would win over the file.
- name: DATA_DIR
  value: {{ include "property-gateway.dataDir" . | quote }}
{{- if .Values.warmUrls }}
- name: WARM_FILE
  value: /etc/property-gateway/warm.yaml
{{- end }}
{{- if include "property-gateway.hasRedis" . }}
- name: REDIS_URL
  valueFrom:
    secretKeyRef:
      name: {{ include "property-gateway.redisSecret" . }}
      key: {{ .Values.redis.existingSecretKey }}
{{- end }}
{{- if or .Values.adminToken.existingSecret .Values.adminToken.value }}
- name: ADMIN_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ include "property-gateway.adminTokenSecret" . }}
      key: {{ .Values.adminToken.existingSecretKey }}
{{- end }}
{{- end -}}

{{/* A probe of the admin port, unless the values name a handler. Arguments: probe, path. */}}
{{- define "property-gateway.probe" -}}
{{- $probe := deepCopy (.probe | default dict) -}}
{{- if not (or $probe.httpGet $probe.tcpSocket $probe.exec $probe.grpc) -}}
{{- $_ := set $probe "httpGet" (dict "path" .path "port" "admin") -}}
{{- end -}}
{{- toYaml $probe -}}
{{- end -}}

{{- define "property-gateway.strategy" -}}
{{- if .Values.strategy -}}
{{- toYaml .Values.strategy -}}
{{- else if include "property-gateway.hasRedis" . -}}
type: RollingUpdate
rollingUpdate:
  maxUnavailable: 0
  maxSurge: 1
{{- else -}}
# Two pods at once would each have the whole budget, and one file.
type: Recreate
{{- end -}}
{{- end -}}
