//! Charts of the tests.

/// A chart with a ConfigMap that looks its namespace up, a Secret and a Deployment.
pub(crate) const SHOP: &[(&str, &str)] = &[
    ("Chart.yaml", "{apiVersion: v2, name: shop, version: 1.0.0}"),
    (
        "values.yaml",
        "{name: '', text: default, hook: '', secret: {}, selector: web}",
    ),
    (
        "values.schema.json",
        r#"{"type": "object", "properties": {"text": {"type": "string"}, "number": {"type": "integer"}}}"#,
    ),
    (
        "templates/config.yaml",
        r#"{{ $name := .Values.name | default "settings" }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $name }}
data:
  text: {{ .Values.text | quote }}
  namespace: {{ (lookup "v1" "Namespace" "" .Release.Namespace).metadata.uid | quote }}
"#,
    ),
    (
        "templates/token.yaml",
        r#"{{ with .Values.secret.token }}
apiVersion: v1
kind: Secret
metadata: {name: {{ $.Values.name }}-token}
stringData: {token: {{ . | quote }}}
{{ end }}
"#,
    ),
    (
        "templates/web.yaml",
        r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Values.name | default "web" }}}
spec:
  {{ with .Values.replicas }}replicas: {{ . }}{{ end }}
  selector: {matchLabels: {app: {{ .Values.selector }}}}
  template:
    metadata: {labels: {app: {{ .Values.selector }}}}
    spec: {containers: [{name: web, image: web}]}
"#,
    ),
    // No pod runs: a hook without completions succeeds at once, one with a deadline fails, any other one never ends.
    // A late one starts after the objects.
    (
        "templates/hook.yaml",
        r#"{{ with .Values.hook }}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $.Release.Name }}-hook
  annotations:
    helm.sh/hook: {{ if hasSuffix "late" . }}post-upgrade{{ else }}'pre-install,pre-upgrade'{{ end }}
    helm.sh/hook-delete-policy: before-hook-creation
spec:
  {{ if eq . "works" }}completions: 0{{ end }}
  {{ if hasPrefix "fails" . }}activeDeadlineSeconds: 1{{ end }}
  template:
    spec: {restartPolicy: Never, containers: [{name: hook, image: hook}]}
{{ end }}
"#,
    ),
];

/// A further ConfigMap, for [`shop_with`].
pub(crate) const EXTRA: (&str, &str) = (
    "templates/extra.yaml",
    r#"{{ with .Values.extra }}
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ . }}}
{{ end }}
"#,
);

/// The chart with further files.
pub(crate) fn shop_with(files: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
    let own = |(path, content): &(&str, &str)| ((*path).to_owned(), content.as_bytes().to_vec());
    SHOP.iter().chain(files).map(own).collect()
}
