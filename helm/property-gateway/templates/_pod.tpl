{{/* Parts of the gateway's pod. */}}

{{/* The variables that the chart sets. */}}
{{- define "property-gateway.ownEnv" -}}
- name: CONFIG_FILE
  value: /etc/property-gateway/gateway.yaml
- name: WATCH_SETTINGS
  value: {{ eq .Values.reload "watch" | quote }}
{{- if .Values.existingConfigMap }}
{{- $settings := include "property-gateway.settings" . | fromYaml }}
- name: PORT
  value: {{ $settings.server.port | int | quote }}
- name: ADMIN_PORT
  value: {{ $settings.admin.port | int | quote }}
- name: ADMIN_HOST
  value: {{ $settings.admin.host | quote }}
{{- end }}
{{- if not (dig "upstream" "privateKeyFile" "" (.Values.config | default dict)) }}
- name: UPSTREAM_PRIVATE_KEY_FILE
  value: /run/secrets/property-gateway/private-key
{{- end }}
- name: REPLICAS
  value: {{ include "property-gateway.replicas" . | quote }}
# The image sets a DATA_DIR of its own, which would override the file. A directory of its own below the volume, because
# Kubernetes lets every user write to the volume itself, which the gateway refuses.
{{- $dataDir := include "property-gateway.dataDir" . }}
- name: DATA_DIR
  value: {{ empty $dataDir | ternary "" (printf "%s/gateway" $dataDir) | quote }}
{{- if include "property-gateway.hasRedis" . }}
- name: REDIS_URL
  valueFrom:
    secretKeyRef:
      name: {{ include "property-gateway.redisSecret" . }}
      key: {{ .Values.redis.existingSecretKey }}
{{- end }}
{{- range $section, $name := dict "auth" "REDIS_PASSWORD_FILE" "sentinelAuth" "REDIS_SENTINEL_PASSWORD_FILE" }}
{{- if include "property-gateway.isGiven" (get $.Values.redis $section) }}
- name: {{ $name }}
  value: {{ include "property-gateway.passwordDirectory" $section }}/password
{{- end }}
{{- end }}
{{- if include "property-gateway.isGiven" .Values.upstreamProxy }}
{{- range list "HTTPS_PROXY" "HTTP_PROXY" }}
- name: {{ . }}
  valueFrom:
    secretKeyRef:
      name: {{ $.Values.upstreamProxy.existingSecret | default (include "property-gateway.fullname" $) }}
      key: {{ $.Values.upstreamProxy.existingSecretKey }}
{{- end }}
{{- end }}
{{- if include "property-gateway.hasTokenSecret" . }}
- name: ADMIN_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ include "property-gateway.adminTokenSecret" . }}
      key: {{ .Values.adminToken.existingSecretKey }}
{{- end }}
{{- end -}}

{{/* "true" if a secret is given, as existingSecret or as value. */}}
{{- define "property-gateway.isGiven" -}}
{{- if or .existingSecret .value }}true{{ end -}}
{{- end -}}

{{/* The directory in which a password of Redis is mounted. Argument: `auth` or `sentinelAuth`. */}}
{{- define "property-gateway.passwordDirectory" -}}
/run/secrets/redis-{{ . | lower }}
{{- end -}}

{{/* The volumes of the passwords at Redis. */}}
{{- define "property-gateway.passwordVolumes" -}}
{{- range $section := list "auth" "sentinelAuth" }}
{{- $auth := get $.Values.redis $section }}
{{- if include "property-gateway.isGiven" $auth }}
- name: redis-{{ lower $section }}
  secret:
    secretName: {{ $auth.existingSecret | default (include "property-gateway.fullname" $) }}
    defaultMode: 0440
    items:
      - key: {{ $auth.existingSecretKey }}
        path: password
{{- end }}
{{- end }}
{{- end -}}

{{/* "https" if a port has a certificate, else "http". Arguments: root, section. */}}
{{- define "property-gateway.scheme" -}}
{{- $settings := include "property-gateway.settings" .root | fromYaml -}}
{{- ternary "https" "http" (not (empty (dig .section "tls" "certFile" "" $settings))) -}}
{{- end -}}

{{/* A probe of the admin port, unless the values name a handler. Arguments: root, probe, path. */}}
{{- define "property-gateway.probe" -}}
{{- $probe := deepCopy (.probe | default dict) -}}
{{- if not (or $probe.httpGet $probe.tcpSocket $probe.exec $probe.grpc) -}}
{{- $httpGet := dict "path" .path "port" "admin" -}}
{{- if eq (include "property-gateway.scheme" (dict "root" .root "section" "admin")) "https" -}}
{{- $_ := set $httpGet "scheme" "HTTPS" -}}
{{- end -}}
{{- $_ := set $probe "httpGet" $httpGet -}}
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
