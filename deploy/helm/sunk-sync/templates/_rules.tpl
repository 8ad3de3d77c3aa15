{{/* Made by `python -m tools.chart` from sunk_sync/kube/rbac.py. Do not edit. */}}

{{- define "sunk-sync.rules.own-lease" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "sunk-sync.objectName" . }}]
  verbs:
    - get # reads which replica leads, for --leader-elect (F6)
    - patch # takes, renews and releases the Lease
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs:
    - create # makes the Lease again if somebody deleted it
{{- end }}

{{- define "sunk-sync.rules.own-hooks-key" -}}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ include "sunk-sync.objectName" . }}-hooks-key]
  verbs:
    - get # reads the key of the hook tokens, which outlives a restart (L5)
    - patch # stores the key once, while the Secret is empty
{{- end }}

{{- define "sunk-sync.rules.cluster" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs:
    - get # a Node counts as deleted only after a read by name finds none (S8)
    - list # sunk-sync starts from a complete listing
    - watch # changes arrive within milliseconds
    - patch # sets labels and the drain annotation (M3, M4), cordons (M7) and locks (L1)
- apiGroups: [""]
  resources: [nodes/status]
  verbs:
    - patch # sets SlurmDrain, SlurmRunning and the other Slurm conditions (M2)
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: [kube-system]
  verbs:
    - get # its UID identifies this cluster in our marks on Slurm nodes (M8)
{{- end }}

{{- define "sunk-sync.rules.slurmd" -}}
- apiGroups: [""]
  resources: [pods]
  verbs:
    - get # a slurmd Pod counts as deleted only after a read by name finds none (S7)
    - list # sunk-sync starts from a complete listing
    - watch # changes arrive within milliseconds
    - patch # sets the annotations drain and drained (M3, S6)
- apiGroups: [""]
  resources: [pods/status]
  verbs:
    - patch # sets the conditions SlurmNodeState… (M1)
- apiGroups: [""]
  resources: [events]
  verbs:
    - create # records on the object what sunk-sync decided and why
    - patch # counts an Event that happens again
{{- end }}

{{- define "sunk-sync.rules.work" -}}
- apiGroups: [""]
  resources: [pods]
  verbs:
    - list # sunk-sync starts from a complete listing
    - watch # changes arrive within milliseconds
{{- end }}

{{- define "sunk-sync.rules.slurmd-nodesets" -}}
- apiGroups: [sunk-sync.dev]
  resources: [nodesets]
  verbs:
    - list # reads which slurmd Pods should exist (N1)
    - watch # changes arrive within milliseconds
    - patch # sets the finalizer: a deleted NodeSet stays until its Pods have ended (N23)
- apiGroups: [""]
  resources: [pods]
  verbs:
    - create # makes the slurmd Pods of a NodeSet (N1)
    - delete # ends by UID and version a Pod of a NodeSet that is drained (N8)
- apiGroups: [sunk-sync.dev]
  resources: [nodesets/status]
  verbs:
    - patch # shows the numbers and conditions of a NodeSet (N2)
{{- end }}

{{- define "sunk-sync.rules.cluster-scheduler" -}}
- apiGroups: [""]
  resources: [namespaces]
  verbs:
    - list # reads the defaults of Namespaces (P5), and labels that Pods select (P8)
    - watch # changes arrive within milliseconds
- apiGroups: [""]
  resources: [persistentvolumes]
  verbs:
    - get # reads a volume right before it reserves it
    - list # reads which Nodes reach a volume, from the first Pod with a claim on
    - watch # changes arrive within milliseconds
    - patch # reserves a volume for the claim of a Pod that has a host (claimRef)
- apiGroups: [storage.k8s.io]
  resources: [storageclasses]
  verbs:
    - list # reads when a claim gets its volume, from the first Pod with a claim on
    - watch # changes arrive within milliseconds
- apiGroups: [storage.k8s.io]
  resources: [csinodes]
  verbs:
    - list # reads how many volumes a Node may attach, from the first Pod with a claim on
    - watch # changes arrive within milliseconds
- apiGroups: [storage.k8s.io]
  resources: [csidrivers]
  verbs:
    - list # reads which drivers tell their room, from the first Pod with a claim on
    - watch # changes arrive within milliseconds
- apiGroups: [storage.k8s.io]
  resources: [csistoragecapacities]
  verbs:
    - list # reads where there is room for a volume, from the first Pod with a claim on
    - watch # changes arrive within milliseconds
{{- end }}

{{- define "sunk-sync.rules.work-scheduler" -}}
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs:
    - get # reads a claim right before it selects a Node for its volume
    - list # reads claims once at the start, and from the first Pod with a claim on
    - watch # changes arrive within milliseconds
    - patch # selects the Node for which a volume is made, or takes it back
- apiGroups: [""]
  resources: [pods]
  verbs:
    - get # confirms that a Pod is gone before its job is cancelled (P21)
    - patch # sets the annotations job-id and cancelled of a waiting Pod (P1, P17)
    - delete # ends a Pod by UID, with its grace period, once its job has ended (P16)
- apiGroups: [""]
  resources: [pods/binding]
  verbs:
    - create # binds a Pod to the Node that Slurm allocated to its job (P11)
- apiGroups: [""]
  resources: [pods/status]
  verbs:
    - patch # sets the conditions PodScheduled and DisruptionTarget (P1, P16)
- apiGroups: [""]
  resources: [events]
  verbs:
    - list # reads why the provisioner of a claim makes no volume
    - create # records decisions on a Pod (P2, P10, P11)
    - patch # counts an Event that happens again
- apiGroups: [batch]
  resources: [jobs]
  verbs:
    - get # reads the number of Pods in the gang of an Indexed Job (G1)
- apiGroups: [scheduling.x-k8s.io]
  resources: [podgroups]
  verbs:
    - get # reads the number of Pods in a gang (G1)
{{- end }}

{{- define "sunk-sync.rules.own" -}}
- apiGroups: [""]
  resources: [events]
  verbs:
    - create # records what concerns the service as a whole (S19, S20)
    - patch # counts an Event that happens again
{{- end }}

{{- define "sunk-sync.rules.default" -}}
- apiGroups: [""]
  resources: [events]
  verbs:
    - create # records decisions on a Node; Events of Nodes are in `default`
    - patch # counts an Event that happens again
{{- end }}

{{- define "sunk-sync.rules.all-pods" -}}
- apiGroups: [""]
  resources: [pods]
  verbs:
    - list # reads what other Pods take and forbid, for --watch-all-pods (P8, P28)
    - watch # keeps this up to date
{{- end }}

{{- define "sunk-sync.rules.lock" -}}
- apiGroups: [""]
  resources: [pods]
  verbs:
    - list # waits until no foreign Pod lives on a Node with the lock (L1)
{{- end }}
