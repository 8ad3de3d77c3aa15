{{/* Whether the chart makes NodeSets: names of the enabled definitions, by commas. */}}
{{- define "sunk-sync.nodeSetNames" -}}
{{- $names := list -}}
{{- range $name, $one := .Values.compute.nodes }}{{ if dig "enabled" false (default dict $one) }}{{ $names = append $names $name }}{{ end }}{{ end -}}
{{- $names | sortAlpha | join "," -}}
{{- end }}

{{/* Namespace of the NodeSet of a definition: (list root definition) */}}
{{- define "sunk-sync.nodeSetNamespace" -}}
{{- default (include "sunk-sync.slurmdNamespaces" (index . 0) | splitList "," | first) (index . 1).namespace -}}
{{- end }}

{{/* Those that the API server has already, by commas. Helm 3 does not compare them with the values. */}}
{{- define "sunk-sync.existingNodeSets" -}}
{{- $names := list -}}
{{- range $name := compact (splitList "," (include "sunk-sync.nodeSetNames" .)) -}}
{{- $given := dict -}}
{{- include "sunk-sync.inherit" (list $.Values.compute.nodes $name list $given) -}}
{{- if lookup "sunk-sync.dev/v1alpha1" "NodeSet" (include "sunk-sync.nodeSetNamespace" (list $ $given)) $name }}{{ $names = append $names $name }}{{ end -}}
{{- end -}}
{{- join "," $names -}}
{{- end }}

{{/* Fields of SUNK or of a NodeSet that a definition does not take, and what to use instead. */}}
{{- define "sunk-sync.definitionInstead" -}}
config: write weight, cpus, memory, reserved and extraConf into its spec
features: use staticFeatures and dynamicFeatures
gres: use gresGpu, or gres in its spec
partitions: write them into slurm.conf, with the name of the NodeSet as feature
s6: run the services in the image, or in containers
securityContext: write it into template of its spec
ssh: run sshd in the image, or in containers
template: write it into its spec
{{- range $name := list "cpus" "extraConf" "lock" "memory" "ordinalPadding" "reserved" "scaleInTimeout" "topology" "updateJobs" "weight" }}
{{ $name }}: it is a field of the NodeSet, so write it into its spec
{{- end }}
{{- end }}

{{/* The first mistake in `compute` that the schema cannot see. */}}
{{- define "sunk-sync.checkCompute" -}}
{{- $nodes := default dict .Values.compute.nodes -}}
{{- if and $nodes (not .Values.nodesets.enabled) -}}
{{- fail "compute.nodes has definitions and nodesets.enabled is false: nobody would make their Pods. Set nodesets.enabled to true." -}}
{{- end -}}
{{- $bases := list -}}
{{- range $nodes }}{{ $bases = concat $bases (dig "definitions" list (default dict .)) }}{{ end -}}
{{- $instead := include "sunk-sync.definitionInstead" . | fromYaml -}}
{{- range $name, $one := $nodes -}}
{{- if not (or (hasKey (default dict $one) "enabled") (has $name $bases)) -}}
{{- fail (printf "compute.nodes.%s is not enabled, and no other definition names it: set its enabled to true or false." $name) -}}
{{- end -}}
{{- range $field, $_ := $one -}}
{{- with index $instead $field -}}
{{- fail (printf "compute.nodes.%s.%s is not a value of this chart: %s." $name $field .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (include "sunk-sync.nodeSetNames" .) (not (.Capabilities.APIVersions.Has "sunk-sync.dev/v1alpha1/NodeSet")) (lookup "v1" "Namespace" "" "default") -}}
{{- fail "compute.nodes needs the kind NodeSet, which this API server does not have yet, and Helm makes no object in the same step as its kind. Run the command once with --set compute.nodes=null, and then as it is." -}}
{{- end -}}
{{- end }}

{{/*
Put a definition into a dict: first those that it names, in their order, then its own fields.
  (list nodes name path-of-names dict)
*/}}
{{- define "sunk-sync.inherit" -}}
{{- $nodes := index . 0 -}}
{{- $name := index . 1 -}}
{{- $path := append (index . 2) $name -}}
{{- $result := index . 3 -}}
{{- if not (hasKey $nodes $name) -}}
{{- fail (printf "compute.nodes.%s names the definition %s, which compute.nodes does not have." (last (initial $path)) $name) -}}
{{- else if has $name (initial $path) -}}
{{- fail (printf "compute.nodes: the definitions %s name each other in a circle." (join ", " $path)) -}}
{{- end -}}
{{- $own := default dict (index $nodes $name) | deepCopy -}}
{{- range $base := $own.definitions }}{{ include "sunk-sync.inherit" (list $nodes $base $path $result) }}{{ end -}}
{{- include "sunk-sync.mergeInto" (list $result (omit $own "enabled" "definitions")) -}}
{{- end }}

{{/* Merge maps; any other value replaces. mergeOverwrite of Helm would keep a number over a 0. */}}
{{- define "sunk-sync.mergeInto" -}}
{{- $result := index . 0 -}}
{{- range $key, $value := index . 1 -}}
{{- $was := index $result $key -}}
{{- if and (kindIs "map" $value) (kindIs "map" $was) -}}
{{- include "sunk-sync.mergeInto" (list $was $value) -}}
{{- else -}}
{{- $_ := set $result $key $value -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Copy the fields that are set: (list from to fields) */}}
{{- define "sunk-sync.copyFields" -}}
{{- $from := index . 0 -}}
{{- $to := index . 1 -}}
{{- range $field := index . 2 -}}
{{- $value := index $from $field -}}
{{- if not (kindIs "invalid" $value) }}{{ $_ := set $to $field $value }}{{ end -}}
{{- end -}}
{{- end }}

{{/*
The spec of the NodeSet of a definition that has inherited already. The fields mean the same as in
sunk_sync/cli/sunk_node_set.py.
*/}}
{{- define "sunk-sync.nodeSetSpec" -}}
{{- $given := . -}}
{{- $slurmd := dict "name" "slurmd" -}}
{{- include "sunk-sync.copyFields" (list $given $slurmd (list "command" "args" "env" "resources" "volumeMounts")) -}}
{{- with $given.image -}}
{{- if kindIs "string" . -}}
{{- $_ := set $slurmd "image" . -}}
{{- else -}}
{{- $tag := empty .tag | ternary "" (print ":" .tag) -}}
{{- $_ := set $slurmd "image" (print (required "compute.nodes: an image needs a repository." .repository) (empty .digest | ternary $tag (print "@" .digest))) -}}
{{- with .pullPolicy }}{{ $_ := set $slurmd "imagePullPolicy" . }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $pod := dict "containers" (concat (list $slurmd) (default list $given.containers)) -}}
{{- include "sunk-sync.copyFields" (list $given $pod (list "affinity" "dnsConfig" "dnsPolicy" "imagePullSecrets" "initContainers" "nodeSelector" "priorityClassName" "serviceAccountName" "terminationGracePeriodSeconds" "tolerations" "volumes")) -}}
{{- $template := dict "spec" $pod -}}
{{- $metadata := dict -}}
{{- include "sunk-sync.copyFields" (list $given $metadata (list "annotations" "labels")) -}}
{{- if $metadata }}{{ $_ := set $template "metadata" $metadata }}{{ end -}}
{{- $spec := dict "scalingMode" "DaemonSet" "template" $template -}}
{{- include "sunk-sync.copyFields" (list $given $spec (list "minReadySeconds" "podNamePrefix" "replicas" "scalingMode" "updateStrategy")) -}}
{{- $features := dict -}}
{{- with $given.staticFeatures }}{{ $_ := set $features "static" . }}{{ end -}}
{{- with $given.dynamicFeatures }}{{ $_ := set $features "dynamic" . }}{{ end -}}
{{- if $features }}{{ $_ := set $spec "features" $features }}{{ end -}}
{{- with $given.gresGpu -}}
{{- $words := splitList ":" (toString .) -}}
{{- $gpu := dict "name" "gpu" "count" (last $words | int) -}}
{{- with initial $words }}{{ $_ := set $gpu "type" (first .) }}{{ end -}}
{{- $_ := set $spec "gres" (list $gpu) -}}
{{- end -}}
{{- include "sunk-sync.mergeInto" (list $spec (default dict $given.spec)) -}}
{{- toYaml $spec -}}
{{- end }}
