{{/*
A Role and its binding in each namespace; for `*` a ClusterRole and its binding.
  root, part (suffix of the name), rules (name of a template in _rules.tpl), namespaces (a,b), about (comment)
*/}}
{{- define "sunk-sync.grant" }}
{{- $grant := . }}
{{- range $namespace := splitList "," .namespaces }}
{{- $name := include "sunk-sync.roleName" (list $grant.root $grant.part $namespace) }}
{{- $kind := eq $namespace "*" | ternary "ClusterRole" "Role" }}
---
# {{ $grant.about }}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  {{- include "sunk-sync.roleMetadata" (list $grant.root $name $namespace) | nindent 2 }}
rules:
  {{- include $grant.rules $grant.root | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  {{- include "sunk-sync.roleMetadata" (list $grant.root $name $namespace) | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "sunk-sync.serviceAccountName" $grant.root }}
    namespace: {{ $grant.root.Release.Namespace }}
{{- end }}
{{- end }}

{{/* Outside the release namespace the name ends with it, so that two releases do not share a role. */}}
{{- define "sunk-sync.roleName" -}}
{{- $root := index . 0 -}}
{{- $name := list (include "sunk-sync.fullname" $root) (index . 1) | compact | join "-" -}}
{{- eq (index . 2) $root.Release.Namespace | ternary $name (printf "%s-%s" $name $root.Release.Namespace) -}}
{{- end }}

{{- define "sunk-sync.roleMetadata" -}}
name: {{ index . 1 }}
{{- if ne (index . 2) "*" }}
namespace: {{ index . 2 }}
{{- end }}
labels:
  {{- include "sunk-sync.labels" (index . 0) | nindent 2 }}
{{- end }}
