{{/* The rules of deploy/prometheus/rules.yaml (files/rules.yaml is a copy), with the changes from the values. */}}
{{- define "property-gateway.rules" -}}
{{- $chosen := .Values.prometheusRule -}}
{{- $jobs := printf "%s-admin" (include "property-gateway.fullname" .) -}}
{{- $groups := list -}}
{{- range (.Files.Get "files/rules.yaml" | replace ".*property-gateway.*" $jobs | fromYaml).groups -}}
{{- $rules := list -}}
{{- range $rule := .rules -}}
{{- $change := get $chosen.alerts (.alert | default "") | default dict -}}
{{- if .alert -}}
{{- $labels := mergeOverwrite .labels (pick $change "severity") ($chosen.alertLabels | default dict) -}}
{{- if hasKey $change "threshold" -}}
{{- $_ := set . "expr" (regexReplaceAll "[0-9.]+ # threshold" .expr (printf "%v # threshold" $change.threshold)) -}}
{{- end -}}
{{- if $chosen.runbookUrl -}}
{{- $_ := unset .annotations "runbook" -}}
{{- $_ := set .annotations "runbook_url" (printf "%s#%s" $chosen.runbookUrl (lower .alert)) -}}
{{- end -}}
{{- $rule = mergeOverwrite . (omit $change "enabled" "severity" "threshold") -}}
{{- end -}}
{{- if ne (toString $change.enabled) "false" -}}
{{- $rules = append $rules $rule -}}
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
