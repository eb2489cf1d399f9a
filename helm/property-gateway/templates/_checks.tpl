{{/* Refuses values that cannot work. One message lists all mistakes. */}}
{{- define "property-gateway.checks" -}}
{{- $faults := list -}}
{{- range list "missing" "secretFaults" "redisFaults" "replicaFaults" "sizeFaults" "repeated" "routeFaults" -}}
{{- $faults = concat $faults (include (printf "property-gateway.%s" .) $ | fromYamlArray) -}}
{{- end -}}
{{- if $faults -}}
{{- fail (printf "\n\nThe values cannot be used:\n  - %s\n" (join "\n  - " $faults)) -}}
{{- end -}}
{{- end -}}

{{- define "property-gateway.missing" -}}
{{- $config := .Values.config | default dict -}}
{{- $upstream := $config.upstream | default dict -}}
{{- $faults := list -}}
{{- if not .Values.existingConfigMap -}}
{{- if not $upstream.url -}}
{{- $faults = append $faults "config.upstream.url is missing: the address of the property API" -}}
{{- end -}}
{{- if not (or ($config.budget | default dict).limit (include "property-gateway.isSandbox" $upstream.url)) -}}
{{- $faults = append $faults "config.budget.limit is missing: the limits that you have agreed on with the API's owner, such as 60/1m,10000/1d" -}}
{{- end -}}
{{- if not $upstream.callerId -}}
{{- $faults = append $faults "config.upstream.callerId is missing: your caller id at the property API" -}}
{{- end -}}
{{- end -}}
{{- if not (or .Values.privateKey.existingSecret .Values.privateKey.value $upstream.privateKeyFile) -}}
{{- $faults = append $faults "the private key is missing: name the Secret that contains it in privateKey.existingSecret, or set privateKey.value" -}}
{{- end -}}
{{- toYaml $faults -}}
{{- end -}}

{{/* "true" for the address of the sandbox: this machine, or a host with the name sandbox. */}}
{{- define "property-gateway.isSandbox" -}}
{{- if regexMatch "^https?://(sandbox|localhost|127\\.[0-9.]+|\\[::1\\])(:[0-9]+)?(/|$)" (. | default "") }}true{{ end -}}
{{- end -}}

{{- define "property-gateway.secretFaults" -}}
{{- $config := .Values.config | default dict -}}
{{- $faults := list -}}
{{- range $path, $instead := dict "redis.url" "redis" "upstream.proxy.https" "upstreamProxy" "upstream.proxy.http" "upstreamProxy" -}}
{{- $part := $config -}}
{{- range splitList "." $path -}}
{{- $part = kindIs "map" $part | ternary (get ($part | default dict) .) "" -}}
{{- end -}}
{{- if $part -}}
{{- $faults = append $faults (printf "config.%s would be readable in a ConfigMap: set it under %s" $path $instead) -}}
{{- end -}}
{{- end -}}
{{- $secrets := dict "privateKey" .Values.privateKey "adminToken" .Values.adminToken "redis.auth" .Values.redis.auth
  "redis.sentinelAuth" .Values.redis.sentinelAuth "upstreamProxy" .Values.upstreamProxy -}}
{{- range $name, $given := $secrets -}}
{{- if and $given.existingSecret $given.value -}}
{{- $faults = append $faults (printf "%s.existingSecret and %s.value are both set: expected one" $name $name) -}}
{{- end -}}
{{- end -}}
{{- if not (regexMatch "^(https?://([^\\s/?#%]|%[0-9A-Fa-f]{2})+/?\\s*)?$" (.Values.upstreamProxy.value | default "")) -}}
{{- $faults = append $faults "upstreamProxy.value is not an address such as http://user:password@proxy.example:3128, with special characters in user and password percent-encoded" -}}
{{- end -}}
{{- range $path, $name := dict "upstream.privateKeyFile" "privateKey" "admin.tokenFile" "adminToken"
  "redis.passwordFile" "redis.auth" "redis.sentinel.passwordFile" "redis.sentinelAuth" -}}
{{- $part := $config -}}
{{- range splitList "." $path -}}
{{- $part = kindIs "map" $part | ternary (get ($part | default dict) .) "" -}}
{{- end -}}
{{- if and $part (include "property-gateway.isGiven" (get $secrets $name)) -}}
{{- $faults = append $faults (printf "config.%s and %s are both set: expected one" $path $name) -}}
{{- end -}}
{{- end -}}
{{- toYaml $faults -}}
{{- end -}}

{{- define "property-gateway.redisFaults" -}}
{{- $settings := (.Values.config | default dict).redis | default dict -}}
{{- $mode := $settings.mode | default "single" -}}
{{- $sentinel := $settings.sentinel | default dict -}}
{{- $faults := list -}}
{{- with .Values.redis -}}
{{- if and .existingSecret .url -}}
{{- $faults = append $faults "redis.existingSecret and redis.url are both set: expected one" -}}
{{- end -}}
{{- if not (regexMatch "^(rediss?://([^\\s/?#%]|%[0-9A-Fa-f]{2})+/?[0-9]*\\s*)?$" (.url | default "")) -}}
{{- $faults = append $faults "redis.url is not an address such as redis://user:password@redis.example:6379, with special characters in user and password percent-encoded" -}}
{{- end -}}
{{- end -}}
{{- if and (eq $mode "sentinel") (not (and $sentinel.master $sentinel.nodes)) -}}
{{- $faults = append $faults "config.redis.mode is sentinel: set config.redis.sentinel.master and config.redis.sentinel.nodes" -}}
{{- end -}}
{{- if and (ne $mode "single") (not (include "property-gateway.hasRedis" .)) -}}
{{- $faults = append $faults (printf "config.redis.mode is %s, but there is no Redis: set redis.existingSecret or redis.url" $mode) -}}
{{- end -}}
{{- toYaml $faults -}}
{{- end -}}

{{- define "property-gateway.replicaFaults" -}}
{{- $config := .Values.config | default dict -}}
{{- $hasRedis := include "property-gateway.hasRedis" . -}}
{{- $most := include "property-gateway.mostReplicas" . | int -}}
{{- $atOnce := include "property-gateway.mostAtOnce" . | int -}}
{{- $faults := list -}}
{{- if and (gt $most 1) (not $hasRedis) -}}
{{- $faults = append $faults (printf "%d replicas without Redis: each would have the whole budget. Set redis.existingSecret or redis.url, or run one" $most) -}}
{{- end -}}
{{- if and (ne ((include "property-gateway.strategy" . | fromYaml).type | default "RollingUpdate") "Recreate") (not $hasRedis) -}}
{{- $faults = append $faults "strategy.type must be Recreate without Redis: a rolling update runs two pods, and each would have the whole budget" -}}
{{- end -}}
{{- if lt (include "property-gateway.replicas" . | int) $atOnce -}}
{{- $faults = append $faults (printf "config.budget.replicas is less than the %d pods that may run at once: leave it out, and the chart counts them" $atOnce) -}}
{{- end -}}
{{- with .Values.autoscaling -}}
{{- if and .enabled (lt (.maxReplicas | int) (.minReplicas | int)) -}}
{{- $faults = append $faults "autoscaling.maxReplicas is less than autoscaling.minReplicas" -}}
{{- end -}}
{{- if and .enabled (not (or .targetCPUUtilizationPercentage .targetMemoryUtilizationPercentage .metrics)) -}}
{{- $faults = append $faults "autoscaling has no target and no metrics" -}}
{{- end -}}
{{- if .enabled -}}
{{- range $resource, $percent := dict "cpu" .targetCPUUtilizationPercentage "memory" .targetMemoryUtilizationPercentage -}}
{{- if and $percent (not (dig "requests" $resource "" ($.Values.resources | default dict))) -}}
{{- $faults = append $faults (printf "autoscaling by %s needs resources.requests.%s" $resource $resource) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $needed := include "property-gateway.stopSeconds" . | int -}}
{{- with .Values.terminationGracePeriodSeconds -}}
{{- if lt (int .) $needed -}}
{{- $faults = append $faults (printf "terminationGracePeriodSeconds is %d, but a stop takes up to %d s (config.server.stopDelay, drainTimeout, and 10 s)" (int .) $needed) -}}
{{- end -}}
{{- end -}}
{{- range $section := list "server" "admin" -}}
{{- if eq (toString (dig $section "port" "" $config)) "0" -}}
{{- $faults = append $faults (printf "config.%s.port is 0, any free port: a Service needs a fixed one" $section) -}}
{{- end -}}
{{- end -}}
{{- toYaml $faults -}}
{{- end -}}

{{/* Memory and disk that are smaller than the settings allow the gateway to use. */}}
{{- define "property-gateway.sizeFaults" -}}
{{- $settings := include "property-gateway.settings" . | fromYaml -}}
{{- $hasRedis := include "property-gateway.hasRedis" . -}}
{{- $dataDir := include "property-gateway.dataDir" . -}}
{{- $faults := list -}}
{{- $limit := dig "limits" "memory" "" (.Values.resources | default dict) -}}
{{- $limitBytes := include "property-gateway.bytes" $limit | int64 -}}
{{- $cacheBytes := include "property-gateway.bytes" $settings.cache.maxBytes | int64 -}}
{{- /* docs/capacity.md: a quarter more than the cache, and 320 MiB. */ -}}
{{- $neededBytes := add $cacheBytes (div $cacheBytes 4) 335544320 -}}
{{- if and (gt $limitBytes 0) (lt $limitBytes $neededBytes) -}}
{{- $faults = append $faults (printf "resources.limits.memory is %v, but with config.cache.maxBytes of %v the process needs %dMi: the pod could be killed" $limit $settings.cache.maxBytes (div (add $neededBytes 1048575) 1048576)) -}}
{{- end -}}
{{- $request := dig "requests" "memory" "" (.Values.resources | default dict) -}}
{{- if and (gt $limitBytes 0) (lt $limitBytes (include "property-gateway.bytes" $request | int64)) -}}
{{- $faults = append $faults (printf "resources.requests.memory is %v, which is more than resources.limits.memory (%v): Kubernetes would refuse the pod" $request $limit) -}}
{{- end -}}
{{- with .Values.persistence -}}
{{- if and .enabled $hasRedis -}}
{{- $faults = append $faults "persistence is for a gateway without Redis: with Redis it keeps nothing on disk" -}}
{{- end -}}
{{- if and .enabled (not $dataDir) -}}
{{- $faults = append $faults "persistence is enabled, but config.dataDir is empty: nothing would be kept" -}}
{{- end -}}
{{- $size := include "property-gateway.bytes" .size | int64 -}}
{{- $needed := div (mul 11 (include "property-gateway.bytes" $settings.cache.maxDiskBytes | int64)) 10 -}}
{{- if and (not $hasRedis) $dataDir (not .existingClaim) (lt $size $needed) -}}
{{- $faults = append $faults (printf "persistence.size is %v, but config.cache.maxDiskBytes is %v: expected a tenth more than that, at least" .size $settings.cache.maxDiskBytes) -}}
{{- end -}}
{{- end -}}
{{- if and $dataDir (not (hasPrefix "/" $dataDir)) -}}
{{- $faults = append $faults "config.dataDir is not absolute: a volume is mounted there" -}}
{{- end -}}
{{- toYaml $faults -}}
{{- end -}}

{{/* Names that the chart uses itself, and names that occur twice. */}}
{{- define "property-gateway.repeated" -}}
{{- $faults := list -}}
{{- $own := include "property-gateway.labels" (dict "root" (dict "Values" dict "Release" .Release "Chart" .Chart) "component" "any") | fromYaml | keys -}}
{{- $labels := dict "commonLabels" .Values.commonLabels "podLabels" .Values.podLabels "service.labels" .Values.service.labels
  "adminService.labels" .Values.adminService.labels -}}
{{- range $where, $given := $labels -}}
{{- range $name := keys ($given | default dict) | sortAlpha -}}
{{- if has $name $own -}}
{{- $faults = append $faults (printf "%s sets %s, which is a label of the chart's own" $where $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- /* The chart computes ports, delays and network rules from these settings, so it must know their values. */ -}}
{{- $seen := list "UPSTREAM_PRIVATE_KEY" "UPSTREAM_PRIVATE_KEY_FILE" "REDIS_URL" "ADMIN_TOKEN" "PORT" "ADMIN_PORT"
  "STOP_DELAY" "DRAIN_TIMEOUT" "UPSTREAM_URL" "UPSTREAM_IMAGE_URL" "TLS_CERT_FILE" "ADMIN_TLS_CERT_FILE" -}}
{{- range include "property-gateway.ownEnv" . | fromYamlArray -}}
{{- $seen = append $seen .name -}}
{{- end -}}
{{- $names := list -}}
{{- range .Values.extraEnv -}}
{{- if has .name $seen -}}
{{- $faults = append $faults (printf "extraEnv sets %s, which the chart sets or needs to know: use its own value, or config" .name) -}}
{{- else if has .name $names -}}
{{- $faults = append $faults (printf "extraEnv sets %s twice" .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- if hasKey (.Values.prometheusRule.alertLabels | default dict) "severity" -}}
{{- $faults = append $faults "prometheusRule.alertLabels sets severity: each alert has its own" -}}
{{- end -}}
{{- $containers := list "gateway" -}}
{{- range concat (.Values.initContainers | default list) (.Values.extraContainers | default list) -}}
{{- if has .name $containers -}}
{{- $faults = append $faults (printf "two containers have the name %s" .name) -}}
{{- end -}}
{{- $containers = append $containers .name -}}
{{- end -}}
{{- $volumes := list "config" "private-key" "redis-auth" "redis-sentinelauth" "data" "tmp" -}}
{{- range .Values.extraVolumes -}}
{{- if has .name $volumes -}}
{{- $faults = append $faults (printf "two volumes have the name %s" .name) -}}
{{- end -}}
{{- $volumes = append $volumes .name -}}
{{- end -}}
{{- toYaml $faults -}}
{{- end -}}

{{- define "property-gateway.routeFaults" -}}
{{- $faults := list -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- $faults = append $faults "ingress.hosts is empty" -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- $faults = append $faults "httpRoute.parentRefs is empty: name the Gateway" -}}
{{- end -}}
{{- if and .Values.service.nodePort (eq (.Values.service.spec.type | default "ClusterIP") "ClusterIP") -}}
{{- $faults = append $faults "service.nodePort needs service.spec.type NodePort or LoadBalancer" -}}
{{- end -}}
{{- toYaml $faults -}}
{{- end -}}
