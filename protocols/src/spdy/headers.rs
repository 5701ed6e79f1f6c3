//! Headers of SPDY frames: one zlib stream per direction, with a dictionary (SPDY/3, section 2.6.10.1).

use std::io;

use miniz_oxide::inflate::{
    TINFLStatus,
    core::{
        DecompressorOxide, TINFL_LZ_DICT_SIZE, decompress, inflate_flags::TINFL_FLAG_HAS_MORE_INPUT,
    },
};

use super::invalid;

static DICTIONARY: &[u8] = include_bytes!("dictionary.bin");
/// Begin of the zlib stream: method, flags with the bit of a dictionary, and its Adler-32 checksum. The level is free.
pub const ZLIB_HEAD: [u8; 6] = [0x78, 0xbb, 0xe3, 0xc6, 0xa7, 0xc2];
const DICTIONARY_FLAG: u8 = 0x20;
const METHOD_MASK: u8 = 0x0f;
const DEFLATE_METHOD: u8 = 8;
/// Limit of the headers of one frame in bytes.
const MAX_PLAIN_BYTES: usize = 64 << 10;

/// Name and value.
pub type Header = (Vec<u8>, Vec<u8>);

/// Reader of all headers of one direction.
#[derive(Default)]
pub struct HeaderReader(Option<Inflater>);

struct Inflater {
    state: Box<DecompressorOxide>,
    /// The last 32 KiB of headers, in a ring.
    window: Box<[u8]>,
    /// Place of the next byte.
    place: usize,
}

impl Inflater {
    /// The dictionary counts as headers before the first ones.
    fn new() -> Self {
        let mut window = vec![0; TINFL_LZ_DICT_SIZE].into_boxed_slice();
        for (place, byte) in window.iter_mut().zip(DICTIONARY) {
            *place = *byte;
        }
        Inflater {
            state: Box::default(),
            window,
            place: DICTIONARY.len(),
        }
    }

    fn inflate(&mut self, mut block: &[u8]) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        loop {
            let (status, taken, written) = decompress(
                &mut self.state,
                block,
                &mut self.window,
                self.place,
                TINFL_FLAG_HAS_MORE_INPUT,
            );
            block = block.get(taken..).unwrap_or_default();
            let end = self.place + written;
            plain.extend_from_slice(self.window.get(self.place..end).unwrap_or_default());
            self.place = end % TINFL_LZ_DICT_SIZE;
            if plain.len() > MAX_PLAIN_BYTES {
                return Err(invalid("headers are too long"));
            }
            match status {
                TINFLStatus::NeedsMoreInput if block.is_empty() => return Ok(plain),
                TINFLStatus::HasMoreOutput => {}
                _ => return Err(invalid("headers cannot be decompressed")),
            }
        }
    }
}

impl HeaderReader {
    /// Reads the header block of one frame, which must be complete.
    ///
    /// # Errors
    /// The block is no valid one of this direction, or too long.
    pub fn read(&mut self, mut block: &[u8]) -> io::Result<Vec<Header>> {
        if self.0.is_none() {
            let (head, rest) = block
                .split_first_chunk::<6>()
                .ok_or_else(|| invalid("headers are too short"))?;
            let [method, flags, checksum @ ..] = head;
            let [_, _, expected @ ..] = ZLIB_HEAD;
            let is_deflate = method & METHOD_MASK == DEFLATE_METHOD && flags & DICTIONARY_FLAG != 0;
            if !is_deflate || *checksum != expected {
                return Err(invalid("headers have another dictionary"));
            }
            block = rest;
        }
        let inflater = self.0.get_or_insert_with(Inflater::new);
        let plain = inflater.inflate(block)?;
        parse(&plain).ok_or_else(|| invalid("headers are incomplete, or more than the frame has"))
    }
}

/// Pairs of names and values; `None` unless they are all of the text.
fn parse(mut plain: &[u8]) -> Option<Vec<Header>> {
    let number = number(&mut plain)?;
    let mut headers = Vec::new();
    for _ in 0..number {
        let name = text(&mut plain)?.to_ascii_lowercase();
        // Values of one name are separated by NUL; Kubernetes takes the first.
        let values = text(&mut plain)?;
        let first = values.split(|&byte| byte == 0).next().unwrap_or_default();
        if headers.iter().any(|(known, _)| *known == name) {
            return None;
        }
        headers.push((name, first.to_vec()));
    }
    plain.is_empty().then_some(headers)
}

fn number(plain: &mut &[u8]) -> Option<usize> {
    let (number, rest) = plain.split_first_chunk::<4>()?;
    *plain = rest;
    usize::try_from(u32::from_be_bytes(*number)).ok()
}

fn text<'a>(plain: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = number(plain)?;
    let (text, rest) = plain.split_at_checked(length)?;
    *plain = rest;
    Some(text)
}
