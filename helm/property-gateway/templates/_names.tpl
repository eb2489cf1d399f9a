{{- define "property-gateway.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 50 characters, which leaves space for suffixes such as -dashboard. */}}
{{- define "property-gateway.fullname" -}}
{{- $name := include "property-gateway.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The labels by which Services, policies and Deployments select pods; a component is added. */}}
{{- define "property-gateway.selector" -}}
app.kubernetes.io/name: {{ include "property-gateway.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The chart's own labels. Values cannot change them. */}}
{{- define "property-gateway.ownLabels" -}}
{{ include "property-gateway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{/*
Labels as a map, each key once. Arguments: root; optionally component and labels.
*/}}
{{- define "property-gateway.labels" -}}
{{- $own := include "property-gateway.ownLabels" .root | fromYaml -}}
{{- if .component -}}
{{- $_ := set $own "app.kubernetes.io/component" .component -}}
{{- end -}}
{{- merge (dict) $own (.labels | default dict) (.root.Values.commonLabels | default dict) | toYaml -}}
{{- end -}}

{{/*
The metadata of a resource. Arguments: root, name; optionally component, namespace, labels and annotations.
*/}}
{{- define "property-gateway.metadata" -}}
name: {{ .name }}
{{- with .namespace }}
namespace: {{ . }}
{{- end }}
labels: {{- include "property-gateway.labels" . | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) (.root.Values.commonAnnotations | default dict) }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "property-gateway.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "property-gateway.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "property-gateway.image" -}}
{{- $registry := (.Values.global | default dict).imageRegistry | default .Values.image.registry -}}
{{- with .Values.image -}}
{{- $repository := ternary (printf "%s/%s" $registry .repository) .repository (ne ($registry | default "") "") -}}
{{- if .digest -}}
{{ $repository }}@{{ .digest }}
{{- else -}}
{{ $repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A list in YAML, each name once; empty if there is none. */}}
{{- define "property-gateway.imagePullSecrets" -}}
{{- $secrets := list -}}
{{- range concat ((.Values.global | default dict).imagePullSecrets | default list) (.Values.imagePullSecrets | default list) -}}
{{- $secrets = append $secrets (kindIs "string" . | ternary (dict "name" .) .) -}}
{{- end -}}
{{- with uniq $secrets }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{/* Settings of every pod of the chart. */}}
{{- define "property-gateway.podBasics" -}}
serviceAccountName: {{ include "property-gateway.serviceAccount" . }}
automountServiceAccountToken: false
# A Service called "admin" would set ADMIN_PORT, which is a setting.
enableServiceLinks: false
{{- with include "property-gateway.imagePullSecrets" . }}
imagePullSecrets: {{- . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The nodes on which a pod may run. Arguments: nodeSelector, tolerations, affinity; each may be empty. */}}
{{- define "property-gateway.placement" -}}
{{- range $name := list "nodeSelector" "tolerations" "affinity" }}
{{- with get $ $name }}
{{ $name }}: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}
