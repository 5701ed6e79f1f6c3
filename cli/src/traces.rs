//! Settings of the export of traces, from flags and from the standard variables of OpenTelemetry.

use std::path::PathBuf;

use fairlead_api::Failure;
use fairlead_client::{Environment, files};
use fairlead_runtime::config::Reader;
use fairlead_traces::{OtlpEndpoint, OtlpHeaders, SampleRatio, TraceSettings};
use secrecy::ExposeSecret;

use crate::settings::read_secret;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
/// Variables with the protocol, the more specific one first.
const PROTOCOLS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
];

/// Reads the settings; `None` without the address of a collector, and with `OTEL_SDK_DISABLED`.
///
/// The exporter itself reads `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_EXPORTER_OTLP_TIMEOUT` and `OTEL_RESOURCE_ATTRIBUTES`.
pub(crate) fn read(
    reader: &mut Reader,
    environment: &Environment,
    service: &str,
) -> Option<TraceSettings> {
    let given: Option<OtlpEndpoint> = reader.optional("otlp-endpoint");
    let headers = read_secret(reader, "otlp-headers", "otlp-headers-file");
    let headers = headers.map(|it| it.expose_secret().parse::<OtlpHeaders>());
    let headers = headers.transpose().unwrap_or_else(|error| {
        reader.mistake(format!("otlp-headers: {error}"));
        None
    });
    let ca: Option<PathBuf> = reader.optional("otlp-ca-file");
    let ca = ca.and_then(|file| match files::read(&file) {
        Ok(pem) => Some(pem),
        Err(error) => {
            reader.mistake(Failure::from(error).cause);
            None
        }
    });
    let ratio = reader.or("trace-ratio", SampleRatio::ALL);
    if environment.get("OTEL_SDK_DISABLED") == Some("true") {
        return None;
    }
    let endpoint = match given {
        Some(given) => given,
        None => standard(reader, environment)?,
    };
    let service = environment.get("OTEL_SERVICE_NAME").unwrap_or(service);
    Some(TraceSettings {
        endpoint,
        headers: headers.unwrap_or_default(),
        ca,
        ratio,
        service: service.to_owned(),
    })
}

/// The address in the standard variables.
fn standard(reader: &mut Reader, environment: &Environment) -> Option<OtlpEndpoint> {
    let parsed = match (environment.get(TRACES_ENDPOINT), environment.get(ENDPOINT)) {
        (Some(text), _) => (TRACES_ENDPOINT, OtlpEndpoint::of_traces(text)),
        (None, Some(text)) => (ENDPOINT, text.parse()),
        (None, None) => return None,
    };
    let protocols = PROTOCOLS.iter().find_map(|it| environment.get(it));
    if let Some(protocol) = protocols.filter(|it| *it != "http/protobuf") {
        reader.mistake(format!(
            "the protocol of OpenTelemetry is {protocol:?}; only http/protobuf is possible, mostly at port 4318"
        ));
    }
    match parsed {
        (_, Ok(endpoint)) => Some(endpoint),
        (name, Err(error)) => {
            reader.mistake(format!("{name}: {error}"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_from(variables: &[(&str, &str)]) -> Result<Option<TraceSettings>, String> {
        let environment = Environment::of(variables);
        let mut reader = Reader::new("server", [], environment.all());
        let settings = read(&mut reader, &environment, "fairlead-hub");
        match reader.finish() {
            Ok(()) => Ok(settings),
            Err(failure) => Err(failure.cause),
        }
    }

    fn endpoint(variables: &[(&str, &str)]) -> String {
        let settings = read_from(variables).unwrap().unwrap();
        settings.endpoint.as_str().to_owned()
    }

    #[test]
    fn tracing_is_off_without_an_address() {
        assert!(read_from(&[]).unwrap().is_none());
        assert!(
            read_from(&[("FAIRLEAD_TRACE_RATIO", "0.1")])
                .unwrap()
                .is_none()
        );
        let disabled = [(ENDPOINT, "http://a"), ("OTEL_SDK_DISABLED", "true")];
        assert!(read_from(&disabled).unwrap().is_none());
    }

    #[test]
    fn own_setting_comes_before_the_standard_variables() {
        let (own, general) = (
            ("FAIRLEAD_OTLP_ENDPOINT", "http://own"),
            (ENDPOINT, "http://general"),
        );
        let traces = (TRACES_ENDPOINT, "http://traces/in");
        assert_eq!(endpoint(&[own, general, traces]), "http://own/v1/traces");
        assert_eq!(endpoint(&[general, traces]), "http://traces/in");
        assert_eq!(endpoint(&[general]), "http://general/v1/traces");
        let settings = read_from(&[general, ("OTEL_SERVICE_NAME", "edge")]);
        assert_eq!(settings.unwrap().unwrap().service, "edge");
    }

    #[test]
    fn mistakes_are_reported_without_secrets() {
        let grpc = [
            (ENDPOINT, "http://a:4317"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ];
        assert!(read_from(&grpc).unwrap_err().contains("http/protobuf"));
        let headers = [("FAIRLEAD_OTLP_HEADERS", "secret")];
        let cause = read_from(&headers).unwrap_err();
        assert!(
            cause.contains("otlp-headers") && !cause.contains("secret"),
            "{cause}"
        );
        assert!(read_from(&[("FAIRLEAD_TRACE_RATIO", "2")]).is_err());
        assert!(read_from(&[("FAIRLEAD_OTLP_ENDPOINT", "a:4317")]).is_err());
    }
}
