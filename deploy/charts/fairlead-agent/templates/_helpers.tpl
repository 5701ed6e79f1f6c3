{{/* Labels of the pods, as in the install manifest of the hub. */}}
{{- define "agent.podLabels" -}}
app.kubernetes.io/name: fairlead-agent
app.kubernetes.io/part-of: fairlead
{{- end }}

{{- define "agent.labels" -}}
{{ include "agent.podLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "agent.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* Subject of the agent's bindings. */}}
{{- define "agent.subject" -}}
- kind: ServiceAccount
  name: fairlead-agent
  namespace: fairlead
{{- end }}

{{/* True if the agent delivers bundles, or the GitOps tool only. */}}
{{- define "agent.delivers" -}}
{{- if or (ne .Values.delivery "none") .Values.gitops.installer }}true{{ end }}
{{- end }}

{{/* True if the agent trusts further certificate authorities. */}}
{{- define "agent.hasCa" -}}
{{- with .Values.ca }}{{ if or .pem .existingSecret .existingConfigMap }}true{{ end }}{{ end }}
{{- end }}

{{/* True if the agent trusts further certificate authorities of a collector of traces. */}}
{{- define "agent.hasTraceCa" -}}
{{- with .Values.traces.ca }}{{ if or .existingSecret .existingConfigMap }}true{{ end }}{{ end }}
{{- end }}

{{/* Namespace of the GitOps tool. */}}
{{- define "agent.toolNamespace" -}}
{{- get (dict "flux" "flux-system" "argocd" "argocd") .Values.gitops.tool }}
{{- end }}

{{/* Secret of the GitOps tool that the agent writes. */}}
{{- define "agent.toolSecret" -}}
{{- get (dict "flux" "flux-system" "argocd" "fairlead-catalog") .Values.gitops.tool }}
{{- end }}

{{/* Refuses values that contradict each other, in one sentence each. */}}
{{- define "agent.check" -}}
{{- if ne .Release.Namespace "fairlead" }}
{{- fail "namespace: the agent's policies name the namespace fairlead: install with --namespace fairlead" }}
{{- end }}
{{- $starts := 0 }}
{{- range list .Values.join .Values.existingSecret .Values.adopt }}{{ if . }}{{ $starts = add1 $starts }}{{ end }}{{ end }}
{{- if ne (int $starts) 1 }}
{{- fail "join: the agent needs one of join, existingSecret and adopt: set exactly one" }}
{{- end }}
{{- if and .Values.adopt (not .Values.hubs) }}
{{- fail "hubs: an agent that waits for its adoption needs the hub: add its address" }}
{{- end }}
{{- if and .Values.proxy.url .Values.proxy.existingSecret }}
{{- fail "proxy.existingSecret: it holds the whole URL: remove proxy.url, or the Secret" }}
{{- end }}
{{- $sources := 0 }}
{{- range list .Values.ca.pem .Values.ca.existingSecret .Values.ca.existingConfigMap }}{{ if . }}{{ $sources = add1 $sources }}{{ end }}{{ end }}
{{- if gt (int $sources) 1 }}
{{- fail "ca: the authorities have one source: set one of pem, existingSecret and existingConfigMap" }}
{{- end }}
{{- range .Values.operatorNamespaces }}
{{- if or (hasPrefix "kube-" .) (hasPrefix "fairlead" .) }}
{{- fail (printf "operatorNamespaces: %s is not for operators: names with kube- or fairlead are reserved" .) }}
{{- end }}
{{- end }}
{{- if and (or .Values.gitops.adopt .Values.gitops.installer) (eq .Values.gitops.tool "none") }}
{{- fail "gitops.tool: adopt and installer belong to a tool: set flux or argocd" }}
{{- end }}
{{- with .Values.traces }}
{{- if and (or .headers.existingSecret .ca.existingSecret .ca.existingConfigMap) (not .endpoint) }}
{{- fail "traces.endpoint: headers and authorities belong to a collector: set its address, or remove them" }}
{{- end }}
{{- if and .ca.existingSecret .ca.existingConfigMap }}
{{- fail "traces.ca: the authorities have one source: set one of existingSecret and existingConfigMap" }}
{{- end }}
{{- end }}
{{- end }}
