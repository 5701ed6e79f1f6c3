//! Tests of `socket`.

use std::{
    io::{Read, Write},
    net, thread,
};

use fairlead_runtime::workers::single;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

#[test]
fn moved_socket_is_woken_by_its_new_runtime() {
    let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    accepted.set_nonblocking(true).unwrap();
    // Nobody polls the first runtime after this.
    let first = single().unwrap();
    let mut socket = first.block_on(async {
        ClientSocket {
            tcp: TcpStream::from_std(accepted).unwrap(),
            replayed: Bytes::new(),
            reset: ResetOnDrop::default(),
            limits: None,
        }
    });
    let echo = thread::spawn(move || {
        single().unwrap().block_on(async {
            socket.move_here().unwrap();
            let mut read = [0; 4];
            socket.read_exact(&mut read).await.unwrap();
            socket.write_all(&read).await.unwrap();
        });
    });
    client.write_all(b"ping").unwrap();
    let mut echoed = [0; 4];
    client.read_exact(&mut echoed).unwrap();
    assert_eq!(&echoed, b"ping");
    echo.join().unwrap();
}
