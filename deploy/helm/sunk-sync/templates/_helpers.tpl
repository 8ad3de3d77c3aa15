{{/* The name of all objects. 40 characters leave room for the longest suffix. */}}
{{- define "sunk-sync.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $release := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- default $release .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "sunk-sync.serviceAccountName" -}}
{{- default (.Values.serviceAccount.create | ternary (include "sunk-sync.fullname" .) "default") .Values.serviceAccount.name -}}
{{- end }}

{{- define "sunk-sync.selectorLabels" -}}
app.kubernetes.io/name: sunk-sync
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: syncer
{{- end }}

{{/* part-of is the Slurm cluster: SUNK dashboards take its name from this label. */}}
{{- define "sunk-sync.podLabels" -}}
{{ include "sunk-sync.selectorLabels" . }}
app.kubernetes.io/part-of: {{ .Values.clusterName | quote }}
{{- end }}

{{- define "sunk-sync.labels" -}}
{{ include "sunk-sync.podLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* `a, b` or [a, b] → a,b without duplicates */}}
{{- define "sunk-sync.list" -}}
{{- $parts := kindIs "slice" . | ternary . (splitList "," (toString .)) -}}
{{- $clean := list -}}
{{- range $parts }}{{ $clean = append $clean (trim .) }}{{ end -}}
{{- $clean | compact | uniq | join "," -}}
{{- end }}

{{/* Namespaces of workload Pods; `*` is all. */}}
{{- define "sunk-sync.watchNamespaces" -}}
{{- if eq .Values.scheduler.scope.type "cluster" -}}
*
{{- else -}}
{{- include "sunk-sync.list" .Values.scheduler.scope.namespaces | default .Release.Namespace -}}
{{- end -}}
{{- end }}

{{- define "sunk-sync.slurmdNamespaces" -}}
{{- include "sunk-sync.list" .Values.slurmd.namespaces | default .Release.Namespace -}}
{{- end }}

{{- define "sunk-sync.schedulerName" -}}
{{- default (printf "%s-%s" .Release.Namespace .Values.clusterName) .Values.scheduler.name -}}
{{- end }}

{{/* sunk-sync looks for its own objects under this name: sunk_sync/kube/write/hooks_key.py */}}
{{- define "sunk-sync.objectName" -}}
sunk-sync-{{ regexReplaceAll "[^a-z0-9]+" (lower .Values.clusterName) "-" }}
{{- end }}

{{- define "sunk-sync.hooksKeyName" -}}
{{ include "sunk-sync.objectName" . }}-hooks-key
{{- end }}

{{/* Whether the hooks server runs: a component is called by Slurm. */}}
{{- define "sunk-sync.hasHooks" -}}
{{- if or .Values.scheduler.enabled .Values.nodesets.enabled }}true{{ end -}}
{{- end }}

{{/* Whether sunk-sync fills the Secret of the chart with a hooks key. */}}
{{- define "sunk-sync.keepsHooksKey" -}}
{{- if and (include "sunk-sync.hasHooks" .) (not .Values.hooks.key.existingSecret) }}true{{ end -}}
{{- end }}

{{- define "sunk-sync.hooksUrl" -}}
{{- default (printf "http://%s-hooks.%s.svc:8000" (include "sunk-sync.fullname" .) .Release.Namespace) .Values.hooks.url -}}
{{- end }}

{{- define "sunk-sync.tokenSecret" -}}
{{- if .Values.slurm.auth.token }}{{ include "sunk-sync.fullname" . }}-slurm-token{{ else }}{{ .Values.slurm.auth.existingSecret }}{{ end -}}
{{- end }}

{{- define "sunk-sync.image" -}}
{{- with .Values.image -}}
{{- .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ default $.Chart.AppVersion .tag }}{{ end -}}
{{- end -}}
{{- end }}

{{/* The settings of the process. What has its default is left out, so that an overlay can move the namespace. */}}
{{- define "sunk-sync.config" -}}
cluster-name: {{ .Values.clusterName | quote }}
components: {{ list "syncer" (.Values.scheduler.enabled | ternary "scheduler" "") (.Values.nodesets.enabled | ternary "nodesets" "") | compact | join "," }}
slurm-api-base: {{ include "sunk-sync.list" .Values.slurm.apiBase | quote }}
slurm-auth-token-file: /var/run/secrets/sunk-sync/{{ .Values.slurm.auth.key }}
{{- if include "sunk-sync.list" .Values.slurmd.namespaces }}
slurmd-namespace: {{ include "sunk-sync.slurmdNamespaces" . | quote }}
{{- end }}
{{- with .Values.slurmd.selector }}
slurmd-selector: {{ . | quote }}
{{- end }}
{{- if ne (include "sunk-sync.watchNamespaces" .) .Release.Namespace }}
watch-namespace: {{ include "sunk-sync.watchNamespaces" . | quote }}
{{- end }}
{{- with .Values.scheduler.name }}
scheduler-name: {{ . | quote }}
{{- end }}
{{- if .Values.scheduler.watchAllPods }}
watch-all-pods: true
{{- end }}
{{- if .Values.lock.enabled }}
lock: true
{{- end }}
{{- if include "sunk-sync.hasUserPolicy" . }}
user-policy: /etc/sunk-sync/user-policy.yaml
{{- end }}
{{- if .Values.leaderElection.enabled }}
leader-elect: true
{{- end }}
{{- if not (include "sunk-sync.hasHooks" .) }}
hooks-api-bind-address: "" # only the scheduler and NodeSets need the hooks
{{- else if or .Values.hooks.url (ne (include "sunk-sync.fullname" .) "sunk-sync") }}
hooks-url: {{ include "sunk-sync.hooksUrl" . }}
{{- end }}
{{- if and (include "sunk-sync.hasHooks" .) .Values.hooks.key.existingSecret }}
hooks-key-file: /var/run/secrets/sunk-sync-hooks/{{ .Values.hooks.key.key }}
{{- end }}
{{- with .Values.traces.endpoint }}
traces-endpoint: {{ . | quote }}
traces-sample: {{ $.Values.traces.sample }}
{{- end }}
{{- with .Values.settings }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The first mistake that the schema cannot see. */}}
{{- define "sunk-sync.check" -}}
{{- with .Values -}}
{{- if not .syncer.enabled -}}
{{- fail "syncer.enabled must be true: every other component needs the syncer. For the syncer alone, set scheduler.enabled to false." -}}
{{- else if and .scheduler.watchAllPods (not .scheduler.enabled) -}}
{{- fail "scheduler.watchAllPods is true and scheduler.enabled is false: only the scheduler counts other Pods. Set scheduler.watchAllPods to false." -}}
{{- else if and .lock.enabled (not .scheduler.enabled) -}}
{{- fail "lock.enabled is true and scheduler.enabled is false: only the scheduler has the hooks that the lock needs. Set lock.enabled to false." -}}
{{- else if and .scheduler.openToAll (omit .scheduler.userPolicy "*") -}}
{{- fail "scheduler.openToAll is true and scheduler.userPolicy names namespaces: choose one." -}}
{{- else if not (or .scheduler.openToAll .scheduler.userPolicy) -}}
{{- fail "scheduler.userPolicy is empty, so that no Pod would get a job: name a namespace, or set scheduler.openToAll to true." -}}
{{- else if and .gate.configMap.enabled (not .scheduler.enabled) (not .nodesets.enabled) -}}
{{- fail "gate.configMap.enabled is true, scheduler.enabled and nodesets.enabled are false: nobody would answer the scripts. Set gate.configMap.enabled to false." -}}
{{- else if not (or .slurm.auth.existingSecret .slurm.auth.token .slurm.auth.volume) -}}
{{- fail "There is no token for slurmrestd: set slurm.auth.existingSecret, slurm.auth.volume or slurm.auth.token." -}}
{{- else if and .slurm.auth.token .slurm.auth.volume -}}
{{- fail "slurm.auth.token and slurm.auth.volume are both set: give only one." -}}
{{- else if and .metrics.serviceMonitor.enabled .metrics.podMonitor.enabled -}}
{{- fail "metrics.serviceMonitor.enabled and metrics.podMonitor.enabled are both true: Prometheus would read the metrics twice. Choose one." -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Of an admission policy: it concerns only Pods of watched namespaces. */}}
{{- define "sunk-sync.onlyWatchedNamespaces" -}}
{{- if ne (include "sunk-sync.watchNamespaces" .) "*" -}}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: In
      values: [{{ include "sunk-sync.watchNamespaces" . | replace "," ", " }}]
{{- end }}
{{- end }}
