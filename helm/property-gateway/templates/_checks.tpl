{{/* What is missing, or wrong together, with all mistakes in one message. */}}
{{- define "property-gateway.checks" -}}
{{- $faults := concat (include "property-gateway.missing" . | fromYamlArray) (include "property-gateway.conflicts" . | fromYamlArray) -}}
{{- if $faults -}}
{{- fail (printf "\n\nThe values cannot be used:\n  - %s\n" (join "\n  - " $faults)) -}}
{{- end -}}
{{- end -}}

{{- define "property-gateway.missing" -}}
{{- $upstream := (.Values.config | default dict).upstream | default dict -}}
{{- $faults := list -}}
{{- if not $upstream.url -}}
{{- $faults = append $faults "config.upstream.url is missing: the address of the property API" -}}
{{- end -}}
{{- if not $upstream.callerId -}}
{{- $faults = append $faults "config.upstream.callerId is missing: your caller id at the property API" -}}
{{- end -}}
{{- if not (or .Values.privateKey.existingSecret .Values.privateKey.value $upstream.privateKeyFile) -}}
{{- $faults = append $faults "the private key is missing: name the Secret that holds it in privateKey.existingSecret, or give it as privateKey.value" -}}
{{- end -}}
{{- toYaml $faults -}}
{{- end -}}

{{- define "property-gateway.conflicts" -}}
{{- $config := .Values.config | default dict -}}
{{- $upstream := $config.upstream | default dict -}}
{{- $hasRedis := include "property-gateway.hasRedis" . -}}
{{- $most := include "property-gateway.mostReplicas" . | int -}}
{{- $faults := list -}}
{{- range $path, $instead := dict "upstream.privateKey" "privateKey" "redis.url" "redis" "admin.token" "adminToken" -}}
{{- $names := splitList "." $path -}}
{{- if get (get $config (first $names) | default dict) (last $names) -}}
{{- $faults = append $faults (printf "config.%s would stand in a ConfigMap for many to read: say it under %s" $path $instead) -}}
{{- end -}}
{{- end -}}
{{- range $name := list "privateKey" "adminToken" -}}
{{- $given := get $.Values $name -}}
{{- if and $given.existingSecret $given.value -}}
{{- $faults = append $faults (printf "%s.existingSecret and %s.value are both set: expected one" $name $name) -}}
{{- end -}}
{{- end -}}
{{- if and $upstream.privateKeyFile (or .Values.privateKey.existingSecret .Values.privateKey.value) -}}
{{- $faults = append $faults "config.upstream.privateKeyFile and privateKey are both set: expected one" -}}
{{- end -}}
{{- if and .Values.warmUrls (dig "warm" "file" "" $config) -}}
{{- $faults = append $faults "warmUrls and config.warm.file are both set: expected one" -}}
{{- end -}}
{{- with .Values.redis -}}
{{- if gt (len (compact (list .existingSecret .url (ternary "trial" "" .trial.enabled)))) 1 -}}
{{- $faults = append $faults "expected one of redis.existingSecret, redis.url and redis.trial.enabled" -}}
{{- end -}}
{{- end -}}
{{- with .Values.redis -}}
{{- if not (regexMatch "^(rediss?://[^ ]+)?$" .url) -}}
{{- $faults = append $faults "redis.url is not an address such as redis://user:password@redis.example:6379" -}}
{{- end -}}
{{- if not (regexMatch "^[A-Za-z0-9]*$" .trial.password) -}}
{{- $faults = append $faults "redis.trial.password is not of letters and digits alone" -}}
{{- end -}}
{{- end -}}
{{- if and (gt $most 1) (not $hasRedis) -}}
{{- $faults = append $faults (printf "%d replicas without Redis: each would have the whole budget to itself. Set redis.existingSecret, redis.url or redis.trial.enabled, or run one" $most) -}}
{{- end -}}
{{- with .Values.autoscaling -}}
{{- if and .enabled (lt (.maxReplicas | int) (.minReplicas | int)) -}}
{{- $faults = append $faults "autoscaling.maxReplicas is less than autoscaling.minReplicas" -}}
{{- end -}}
{{- end -}}
{{- if lt (include "property-gateway.replicas" . | int) $most -}}
{{- $faults = append $faults (printf "config.budget.replicas is less than the %d that may run: leave it out, and it is counted" $most) -}}
{{- end -}}
{{- if and .Values.persistence.enabled $hasRedis -}}
{{- $faults = append $faults "persistence is for a gateway without Redis: with it nothing is kept on disk" -}}
{{- end -}}
{{- range $section := list "server" "admin" -}}
{{- if eq (toString (dig $section "port" "" $config)) "0" -}}
{{- $faults = append $faults (printf "config.%s.port is 0, any free port: a Service needs a fixed one" $section) -}}
{{- end -}}
{{- end -}}
{{- $dataDir := include "property-gateway.dataDir" . -}}
{{- if and $dataDir (not (hasPrefix "/" $dataDir)) -}}
{{- $faults = append $faults "config.dataDir is not absolute: a volume is mounted there" -}}
{{- end -}}
{{- toYaml $faults -}}
{{- end -}}
