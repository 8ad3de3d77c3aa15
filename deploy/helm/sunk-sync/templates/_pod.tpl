{{/* Every volume is mounted as a directory: a changed Secret then needs no restart. */}}
{{- define "sunk-sync.volumeMounts" -}}
- name: config
  mountPath: /etc/sunk-sync
  readOnly: true
- name: token
  mountPath: /var/run/secrets/sunk-sync
  readOnly: true
{{- if .Values.slurm.ca.existingSecret }}
- name: ca
  mountPath: /etc/sunk-sync-ca
  readOnly: true
{{- end }}
{{- if and (include "sunk-sync.hasHooks" .) .Values.hooks.key.existingSecret }}
- name: hooks-key
  mountPath: /var/run/secrets/sunk-sync-hooks
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "sunk-sync.volumes" -}}
- name: config
  configMap:
    name: {{ include "sunk-sync.fullname" . }}
- name: token
  {{- if .Values.slurm.auth.volume }}
  {{- toYaml .Values.slurm.auth.volume | nindent 2 }}
  {{- else }}
  secret:
    defaultMode: 0440
    secretName: {{ include "sunk-sync.tokenSecret" . }}
  {{- end }}
{{- with .Values.slurm.ca.existingSecret }}
- name: ca
  secret:
    secretName: {{ . }}
{{- end }}
{{- if and (include "sunk-sync.hasHooks" .) .Values.hooks.key.existingSecret }}
- name: hooks-key
  secret:
    defaultMode: 0440
    secretName: {{ .Values.hooks.key.existingSecret }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Where the Pod may run. */}}
{{- define "sunk-sync.placement" -}}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .Values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml .Values.topologySpreadConstraints | nindent 2 }}
{{- else if .Values.leaderElection.enabled }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "sunk-sync.selectorLabels" . | nindent 8 }}
{{- end }}
{{- end }}
