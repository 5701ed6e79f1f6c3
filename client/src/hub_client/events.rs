//! Parser of server-sent events (HTML Living Standard, section 9.2.6).

/// Limit of one event in bytes.
const MAX_EVENT_BYTES: usize = 1024 * 1024;

/// A server-sent event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerEvent {
    /// Id, with which a later request continues after this event.
    pub id: Option<String>,
    /// Type; `message` if the server names none.
    pub kind: String,
    /// Lines of data, joined by line feeds.
    pub data: String,
}

/// An event is longer than its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event has more than {MAX_EVENT_BYTES} bytes")]
pub(super) struct EventTooLong;

/// State of a stream between two pieces.
#[derive(Default)]
pub(super) struct EventParser {
    /// Bytes of an incomplete line.
    line: Vec<u8>,
    /// True after CR, whose LF may follow in the next piece.
    follows_cr: bool,
    event: PendingEvent,
}

#[derive(Default)]
struct PendingEvent {
    id: Option<String>,
    kind: Option<String>,
    data: Option<String>,
}

impl EventParser {
    /// Adds bytes, and returns the events that they complete.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<ServerEvent>, EventTooLong> {
        let mut events = Vec::new();
        for &byte in bytes {
            let is_second_half = byte == b'\n' && std::mem::take(&mut self.follows_cr);
            if is_second_half {
                continue;
            }
            self.follows_cr = byte == b'\r';
            if matches!(byte, b'\r' | b'\n') {
                let line = std::mem::take(&mut self.line);
                events.extend(self.event.add(&String::from_utf8_lossy(&line)));
            } else {
                self.line.push(byte);
            }
            let data = self.event.data.as_ref().map_or(0, String::len);
            if self.line.len() + data > MAX_EVENT_BYTES {
                return Err(EventTooLong);
            }
        }
        Ok(events)
    }
}

impl PendingEvent {
    /// Adds a line; an empty one completes the event.
    fn add(&mut self, line: &str) -> Option<ServerEvent> {
        if line.is_empty() {
            let PendingEvent { id, kind, data } = std::mem::take(self);
            // An event without any data is dropped, unless its type is the message.
            let is_event = data.is_some() || kind.is_some();
            return is_event.then(|| ServerEvent {
                id,
                kind: kind.unwrap_or_else(|| "message".to_owned()),
                data: data.unwrap_or_default(),
            });
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            "event" => self.kind = Some(value.to_owned()),
            // Comments have an empty name; other fields have no meaning here.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: Option<&str>, kind: &str, data: &str) -> ServerEvent {
        ServerEvent {
            id: id.map(str::to_owned),
            kind: kind.to_owned(),
            data: data.to_owned(),
        }
    }

    #[test]
    fn events_are_the_same_however_the_bytes_arrive() {
        let text =
            ": idle\n\nid: 12\ndata: a\ndata:  b\r\n\r\nevent: end\ndata: {}\n\nid: 20\rdata\r\r";
        let expected = [
            event(Some("12"), "message", "a\n b"),
            event(None, "end", "{}"),
            event(Some("20"), "message", ""),
        ];
        for size in [1, 2, 3, 7, 100] {
            let mut parser = EventParser::default();
            let pieces = text.as_bytes().chunks(size);
            let events: Vec<_> = pieces.flat_map(|it| parser.feed(it).unwrap()).collect();
            assert_eq!(events, expected, "pieces of {size} bytes");
        }
    }

    #[test]
    fn incomplete_event_at_the_end_is_no_event() {
        let mut parser = EventParser::default();
        assert_eq!(parser.feed(b"data: cut off\n"), Ok(Vec::new()));
    }

    #[test]
    fn endless_event_is_refused() {
        let mut parser = EventParser::default();
        let piece = vec![b'x'; 64 * 1024];
        let fed = (0..17).map(|_| parser.feed(&piece));
        let fed: Result<Vec<_>, _> = fed.collect();
        assert_eq!(fed, Err(EventTooLong));
        let mut parser = EventParser::default();
        let piece = format!("data: {}\n", "x".repeat(64 * 1024));
        let fed = (0..17).map(|_| parser.feed(piece.as_bytes()));
        let fed: Result<Vec<_>, _> = fed.collect();
        assert_eq!(fed, Err(EventTooLong));
    }
}
