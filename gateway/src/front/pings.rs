//! WebSocket pings on a client's upgraded connection that says nothing (RFC 6455, 5.5.2): boxes on its way forget a
//! connection that is idle, and an `exec` that waits for a key is. They go between the frames of whoever serves, which
//! are followed for that and not changed. The client's pongs go on to the server, for which they mean nothing (5.5.3).

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

/// After so long without a byte either way: boxes that forget after 20 s are the least patient ones in the field.
pub(crate) const IDLE: Duration = Duration::from_secs(15);
/// A whole frame from a server: FIN and opcode 9, unmasked, no body.
const PING: &[u8] = &[0x89, 0x00];
const CLOSE: u8 = 8;

/// A client's connection that speaks WebSocket from its first byte on.
pub(crate) struct Pinged<IO> {
    io: IO,
    said: Frames,
    /// What of a ping is to be written before anything else.
    ping: &'static [u8],
    unflushed: bool,
    idle: Pin<Box<Sleep>>,
}

impl<IO> Pinged<IO> {
    pub(crate) fn new(io: IO) -> Self {
        Pinged {
            io,
            said: Frames::default(),
            ping: &[],
            unflushed: false,
            idle: Box::pin(sleep(IDLE)),
        }
    }

    fn awake(&mut self) {
        self.idle.as_mut().reset(Instant::now() + IDLE);
    }
}

impl<IO: AsyncWrite + Unpin> Pinged<IO> {
    /// What is begun of a ping, whole.
    fn poll_ping(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.ping.is_empty() {
            match ready!(Pin::new(&mut self.io).poll_write(cx, self.ping))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                taken => self.ping = self.ping.get(taken..).unwrap_or_default(),
            }
            self.unflushed = true;
        }
        if self.unflushed {
            ready!(Pin::new(&mut self.io).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Sets the timer, and pings where it is time and a frame may begin.
    fn attend(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while self.idle.as_mut().poll(cx).is_ready() {
            self.awake();
            if self.said.may_begin() && self.ping.is_empty() {
                self.ping = PING;
            }
        }
        match self.poll_ping(cx) {
            Poll::Ready(Err(error)) => Err(error),
            _ => Ok(()),
        }
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for Pinged<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        if read.is_ready() {
            self.awake();
        }
        // Whoever reads waits here, so the timer wakes them.
        self.attend(cx)?;
        read
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Pinged<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_ping(cx))?;
        let taken = ready!(Pin::new(&mut self.io).poll_write(cx, buf))?;
        self.said.follow(buf.get(..taken).unwrap_or_default());
        self.awake();
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_ping(cx))?;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_ping(cx))?;
        self.said.closed = true;
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// Where in the framing (RFC 6455, 5.2) the next byte stands. It checks nothing: that is for the two ends.
#[derive(Default)]
struct Frames {
    /// The head of a frame, as far as it has come: 14 bytes at most.
    head: Vec<u8>,
    /// What of a frame's body is still to come.
    body: u64,
    /// After a close frame there is nothing more to say.
    closed: bool,
}

impl Frames {
    fn may_begin(&self) -> bool {
        self.head.is_empty() && self.body == 0 && !self.closed
    }

    fn follow(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.body > 0 {
                let now = usize::try_from(self.body).unwrap_or(usize::MAX);
                let now = now.min(bytes.len());
                self.body -= now as u64;
                bytes = bytes.get(now..).unwrap_or_default();
            } else if let Some((&byte, rest)) = bytes.split_first() {
                self.head.push(byte);
                bytes = rest;
                self.end_of_head();
            }
        }
    }

    /// Goes over to the body, if the head is whole.
    fn end_of_head(&mut self) {
        let &[first, second, ref rest @ ..] = self.head.as_slice() else {
            return;
        };
        let key = if second & 0x80 == 0 { 0 } else { 4 };
        let (length, size) = match second & 0x7f {
            126 => (rest.first_chunk().map(|&b| u16::from_be_bytes(b).into()), 2),
            127 => (rest.first_chunk().map(|&b| u64::from_be_bytes(b)), 8),
            short => (Some(short.into()), 0),
        };
        if let Some(length) = length
            && rest.len() == size + key
        {
            self.closed |= first & 0x0f == CLOSE;
            self.body = length;
            self.head.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    /// Frames of a server: text, a longer one, one that is masked though it need not be.
    fn frames() -> Vec<Vec<u8>> {
        let mut long = vec![0x82, 126, 1, 44];
        long.resize(4 + 300, 0x89);
        let mut longest = vec![0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0];
        longest.resize(10 + 65536, 0);
        vec![
            b"\x81\x02hi".to_vec(),
            vec![0x82, 0],
            long,
            longest,
            b"\x81\x83\x01\x02\x03\x04abc".to_vec(),
        ]
    }

    #[test]
    fn a_frame_may_begin_where_one_has_ended_and_nowhere_else() {
        let mut said = Frames::default();
        for frame in frames() {
            for (at, byte) in frame.iter().enumerate() {
                assert!(said.may_begin() == (at == 0), "{:?} at {at}", &frame[..2]);
                said.follow(&[*byte]);
            }
        }
        said.follow(&frames().concat());
        assert!(said.may_begin());
        said.follow(&[0x88, 2, 3, 232]);
        assert!(!said.may_begin(), "it is closed");
    }

    fn pair() -> (Pinged<DuplexStream>, DuplexStream) {
        let (server, client) = duplex(64);
        (Pinged::new(server), client)
    }

    /// Reads for as long as `client` takes, as a splice does.
    async fn serve<T>(server: &mut Pinged<DuplexStream>, client: impl Future<Output = T>) -> T {
        let mut nothing = [0; 16];
        let mut client = std::pin::pin!(client);
        loop {
            tokio::select! {
                done = &mut client => return done,
                read = server.read(&mut nothing) => assert!(read.unwrap() > 0),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_says_nothing_is_pinged_again_and_again() {
        let (mut server, mut client) = pair();
        let begin = Instant::now();
        let mut seen = [0; 6];
        let reading = client.read_exact(&mut seen);
        serve(&mut server, reading).await.unwrap();
        assert_eq!(seen, [0x89, 0, 0x89, 0, 0x89, 0]);
        assert_eq!(begin.elapsed().as_secs(), 45);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_speaks_is_not_pinged() {
        let (mut server, mut client) = pair();
        let speaking = async {
            for _ in 0..10 {
                sleep(Duration::from_secs(14)).await;
                client.write_all(b"x").await.unwrap();
            }
            let mut seen = [0; 2];
            client.read_exact(&mut seen).await.unwrap();
        };
        let begin = Instant::now();
        serve(&mut server, speaking).await;
        assert_eq!(begin.elapsed().as_secs(), 155);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_comes_into_the_middle_of_a_frame_nor_behind_the_last() {
        let (mut server, mut client) = pair();
        server.write_all(b"\x81\x02h").await.unwrap();
        let waiting = serve(&mut server, sleep(Duration::from_secs(60)));
        waiting.await;
        server.write_all(b"i").await.unwrap();
        serve(&mut server, sleep(Duration::from_secs(16))).await;
        server.write_all(b"\x88\x00").await.unwrap();
        serve(&mut server, sleep(Duration::from_secs(60))).await;
        drop(server);
        let mut seen = Vec::new();
        client.read_to_end(&mut seen).await.unwrap();
        assert_eq!(seen, b"\x81\x02hi\x89\x00\x88\x00");
    }

    #[tokio::test(start_paused = true)]
    async fn a_ping_that_does_not_fit_is_whole_before_anything_else_goes() {
        let (server, mut client) = duplex(1);
        let mut server = Pinged::new(server);
        serve(&mut server, sleep(Duration::from_secs(20))).await;
        let reading = tokio::spawn(async move {
            let mut seen = Vec::new();
            client.read_to_end(&mut seen).await.unwrap();
            seen
        });
        server.write_all(b"\x81\x02hi").await.unwrap();
        drop(server);
        assert_eq!(reading.await.unwrap(), b"\x89\x00\x81\x02hi");
    }
}
