{{/* Whether the policy of namespaces applies. */}}
{{- define "sunk-sync.hasUserPolicy" -}}
{{- if and .Values.scheduler.enabled (not .Values.scheduler.openToAll) }}true{{ end -}}
{{- end }}

{{/* Whether to make the admission policy. Without a cluster helm knows no kinds, not even Pods. */}}
{{- define "sunk-sync.hasAdmissionPolicy" -}}
{{- $known := .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy" -}}
{{- if and .Values.scheduler.enabled .Values.admissionPolicy.enabled (or $known (not (.Capabilities.APIVersions.Has "v1/Pod"))) }}true{{ end -}}
{{- end }}

{{/* A number or a text as text. Numbers of values may be floats. */}}
{{- define "sunk-sync.text" -}}
{{- if kindIs "float64" . }}{{ printf "%.0f" . }}{{ else }}{{ toString . }}{{ end -}}
{{- end }}

{{/* `a, b`, [a, b] or 1 → a JSON list of texts */}}
{{- define "sunk-sync.words" -}}
{{- $words := list -}}
{{- range kindIs "slice" . | ternary . (list .) -}}
{{- range splitList "," (include "sunk-sync.text" .) }}{{ $words = append $words (trim .) }}{{ end -}}
{{- end -}}
{{- toJson $words -}}
{{- end }}

{{/* Each namespace and its rules as lists of texts, in JSON, which is CEL too. */}}
{{- define "sunk-sync.rulesByNamespace" -}}
{{- $none := dict "users" list "groups" list "accounts" list "qos" list "partitions" list "reservations" list "max-priority" list "exclusive" list "required-nodes" list "namespace-defaults" list "default-user" list "default-group" list "default-account" list -}}
{{- $rows := dict "*" $none -}}
{{- range $namespace, $rules := .Values.scheduler.userPolicy -}}
{{- $row := dict -}}
{{- if kindIs "map" $rules -}}
{{- range $rule, $value := $rules -}}
{{- if kindIs "bool" $value }}{{ $_ := set $row $rule (ternary (list "true") list $value) }}{{ else }}{{ $_ := set $row $rule (include "sunk-sync.words" $value | fromJsonArray) }}{{ end -}}
{{- end -}}
{{- range $ids, $own := dict "users" "default-user" "groups" "default-group" -}}
{{- $root := ternary (list "0") list (has "true" (get $row "root" | default list)) -}}
{{- $_ := set $row $ids (concat $root (get $row $own | default list) (get $row $ids | default list)) -}}
{{- end -}}
{{- else -}}
{{- /* uids alone restrict nothing else */ -}}
{{- $users := include "sunk-sync.words" $rules | fromJsonArray -}}
{{- $row = dict "users" (ternary (append $users "0") $users (has "*" $users)) "groups" (list "0" "*") "max-priority" (list "4294967293") "exclusive" (list "true") "required-nodes" (list "true") -}}
{{- range list "accounts" "qos" "partitions" "reservations" }}{{ $_ := set $row . (list "*") }}{{ end -}}
{{- end -}}
{{- $_ := set $rows $namespace (merge (omit $row "root") $none) -}}
{{- end -}}
{{- toJson $rows -}}
{{- end }}

{{/* A duration such as 1m30s, or seconds, as seconds. */}}
{{- define "sunk-sync.seconds" -}}
{{- $total := 0.0 -}}
{{- $factors := dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 "d" 86400.0 -}}
{{- $text := kindIs "string" . | ternary (toString .) (printf "%vs" .) -}}
{{- range regexFindAll "[0-9.]+(ms|s|m|h|d)" (regexMatch "^[0-9.]+$" $text | ternary (printf "%ss" $text) $text) -1 -}}
{{- $total = addf $total (mulf (regexFind "^[0-9.]+" . | float64) (get $factors (regexFind "[a-z]+$" .))) -}}
{{- end -}}
{{- printf "%.3f" $total -}}
{{- end }}
