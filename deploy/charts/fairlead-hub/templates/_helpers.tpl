{{- define "hub.name" -}}
{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "hub.host" -}}
{{ (urlParse .Values.publicUrl).hostname }}
{{- end }}

{{- define "hub.selector" -}}
app.kubernetes.io/name: fairlead-hub
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "hub.labels" -}}
{{ include "hub.selector" . }}
app.kubernetes.io/part-of: fairlead
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "hub.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* True if something before the hub ends TLS: the hub listens for plain HTTP, too. */}}
{{- define "hub.plain" -}}
{{- if or .Values.ingress.enabled (and .Values.gateway.enabled (eq .Values.gateway.kind "HTTPRoute")) }}true{{ end }}
{{- end }}

{{/* Refuses values that contradict each other, in one sentence each. */}}
{{- define "hub.check" -}}
{{- if and (gt (int .Values.replicas) 1) (not (and .Values.store.url .Values.store.keySecret.name)) }}
{{- fail "replicas: more than one hub needs store.url and store.keySecret.name: set both, or replicas to 1" }}
{{- end }}
{{- if and .Values.store.passwordSecret.name (not .Values.store.url) }}
{{- fail "store.passwordSecret: SQLite has no password: set store.url, or remove the Secret" }}
{{- end }}
{{- if and (eq .Values.tls.source "certManager") (not .Values.tls.issuerRef.name) }}
{{- fail "tls.issuerRef.name: cert-manager needs an issuer: set its name, or another tls.source" }}
{{- end }}
{{- if and .Values.gateway.enabled (not .Values.gateway.parentRefs) }}
{{- fail "gateway.parentRefs: a route needs a Gateway: add its name" }}
{{- end }}
{{- if and .Values.proxyProtocol (not .Values.trustedProxies) }}
{{- fail "trustedProxies: the PROXY header needs the networks of the load balancers: add them" }}
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
