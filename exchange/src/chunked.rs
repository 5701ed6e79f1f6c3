//! Strict decoder of the chunked transfer coding (RFC 9112, 7.1): at most 15 hexadecimal digits,
//! exact CRLF, no blanks, bounded extensions and trailers. Data is passed on without a copy.

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;

use crate::{
    error::{HttpError, malformed},
    fields,
};

/// 2^60 bytes are enough for a chunk, and cannot overflow.
const MAX_DIGITS: u8 = 15;
/// Limit for the extensions of one body, in bytes. Their only known use is an attack.
const MAX_EXTENSIONS: usize = 16 * 1024;
/// Limit for the trailers, in bytes.
const MAX_TRAILERS: usize = 16 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// In a size, after so many digits.
    Size(u8),
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// At the start of the trailers, or within them.
    Trailers,
    Done,
}

/// Kind of decoded input.
#[derive(Debug)]
pub(crate) enum Piece {
    /// All input was consumed; more is needed.
    More,
    Data(Bytes),
    Trailers(HeaderMap),
    End,
}

#[derive(Debug)]
pub(crate) struct Chunked {
    at: At,
    /// Remaining bytes of the current chunk.
    left: u64,
    extensions: usize,
    held: BytesMut,
    trailers: Option<HeaderMap>,
}

impl Default for Chunked {
    fn default() -> Self {
        Chunked {
            at: At::Size(0),
            left: 0,
            extensions: 0,
            held: BytesMut::new(),
            trailers: None,
        }
    }
}

impl Chunked {
    /// True if everything was read and returned.
    pub(crate) fn is_done(&self) -> bool {
        self.at == At::Done && self.trailers.is_none()
    }

    pub(crate) fn next(&mut self, input: &mut Bytes) -> Result<Piece, HttpError> {
        self.advance(input)?;
        match self.at {
            At::Data if !input.is_empty() => {
                let whole = usize::try_from(self.left).unwrap_or(usize::MAX);
                let data = input.split_to(whole.min(input.len()));
                self.left -= data.len() as u64;
                if self.left == 0 {
                    self.at = At::DataCr;
                    // The end of the body is mostly in the same piece, and readers that know the
                    // length do not poll again.
                    self.advance(input)?;
                }
                Ok(Piece::Data(data))
            }
            At::Done => Ok(self.trailers.take().map_or(Piece::End, Piece::Trailers)),
            _ => Ok(Piece::More),
        }
    }

    /// Consumes everything but data.
    fn advance(&mut self, input: &mut Bytes) -> Result<(), HttpError> {
        while !matches!(self.at, At::Data | At::Done) {
            if self.at == At::Trailers {
                if !self.trailers(input)? {
                    return Ok(());
                }
                continue;
            }
            let Some(&byte) = input.first() else {
                return Ok(());
            };
            input.advance(1);
            self.at = self.step(byte)?;
        }
        Ok(())
    }

    fn step(&mut self, byte: u8) -> Result<At, HttpError> {
        match (self.at, byte) {
            (At::Size(digits), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                if digits == MAX_DIGITS {
                    return malformed("a chunk's size has too many digits");
                }
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                self.left = self.left << 4 | u64::from(digit);
                Ok(At::Size(digits + 1))
            }
            (At::Size(1..), b';') => Ok(At::Extension),
            (At::Size(1..) | At::Extension, b'\r') => Ok(At::SizeLf),
            (At::Size(_), _) => malformed("a chunk's size is not a number"),
            (At::Extension, b'\t' | b' '..=b'~' | 0x80..) => {
                self.extensions += 1;
                if self.extensions > MAX_EXTENSIONS {
                    return malformed("the chunk extensions are too long");
                }
                Ok(At::Extension)
            }
            (At::Extension, _) => malformed("a chunk's extension has a control character"),
            (At::SizeLf, b'\n') if self.left == 0 => Ok(At::Trailers),
            (At::SizeLf, b'\n') => Ok(At::Data),
            (At::DataCr, b'\r') => Ok(At::DataLf),
            (At::DataLf, b'\n') => Ok(At::Size(0)),
            (At::SizeLf, _) => malformed("a chunk's size does not end with CRLF"),
            (At::DataCr | At::DataLf, _) => malformed("a chunk is longer than its size"),
            (at @ (At::Data | At::Trailers | At::Done), _) => Ok(at),
        }
    }

    /// True at the end of the trailers.
    fn trailers(&mut self, input: &mut Bytes) -> Result<bool, HttpError> {
        while let Some(&byte) = input.first() {
            input.advance(1);
            if byte == b'\n' && self.held.last() != Some(&b'\r') {
                return malformed("a trailer's line does not end with CRLF");
            }
            self.held.extend_from_slice(&[byte]);
            if self.held.len() > MAX_TRAILERS {
                return malformed("the trailers are too large");
            }
            if &self.held[..] == b"\r\n" || self.held.ends_with(b"\r\n\r\n") {
                let held = std::mem::take(&mut self.held).freeze();
                self.at = At::Done;
                if held.len() > 2 {
                    self.trailers = Some(fields::trailers(&held)?);
                }
                return Ok(true);
            }
        }
        Ok(false)
    }
}
