{{/*
The rules with the thresholds from the values. files/alerts.yaml has the placeholders <threshold> and <jobs>. An alert's
enabled, severity and for are only in the values. `npm run generate` writes files/rules.yaml in the same way, with the
default values, for Prometheus without Kubernetes.
*/}}
{{- define "property-gateway.rules" -}}
{{- $chosen := .Values.prometheusRule -}}
{{- $jobs := printf "%s-admin" (include "property-gateway.fullname" .) -}}
{{- $groups := list -}}
{{- range (.Files.Get "files/alerts.yaml" | fromYaml).groups -}}
{{- $rules := list -}}
{{- range .rules -}}
{{- if .alert -}}
{{- $alert := get $chosen.alerts .alert -}}
{{- if $alert.enabled -}}
{{- $expr := .expr | replace "<threshold>" (toString $alert.threshold) | replace "<jobs>" $jobs -}}
{{- $labels := merge (dict "severity" $alert.severity) ($chosen.alertLabels | default dict) -}}
{{- $anchor := lower .alert -}}
{{- $annotations := deepCopy .annotations -}}
{{- if $chosen.runbookUrl -}}
{{- $_ := set $annotations "runbook_url" (printf "%s#%s" $chosen.runbookUrl $anchor) -}}
{{- else -}}
{{- $_ := set $annotations "runbook" (printf "docs/runbook.md#%s" $anchor) -}}
{{- end -}}
{{- $rules = append $rules (dict "alert" .alert "expr" $expr "for" $alert.for "labels" $labels "annotations" $annotations) -}}
{{- end -}}
{{- else -}}
{{- $rules = append $rules . -}}
{{- end -}}
{{- end -}}
{{- if $rules -}}
{{- $groups = append $groups (dict "name" .name "rules" $rules) -}}
{{- end -}}
{{- end -}}
{{- with $chosen.extraRules -}}
{{- $groups = append $groups (dict "name" "property-gateway-extra" "rules" .) -}}
{{- end -}}
{{- dict "groups" $groups | toYaml -}}
{{- end -}}
