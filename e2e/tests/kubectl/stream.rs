//! exec and attach, over WebSocket and over SPDY.

use std::time::Duration;

use fairlead_e2e::UpgradeProtocol;
use tokio::{task::JoinSet, time::sleep};

use crate::row::{check, row};
use crate::world::{CallRoute, KubectlWorld};
use crate::{BOTH, STEP_DEADLINE};

/// Bytes beyond all buffers on the path.
const LARGE_INPUT_BYTES: usize = 30_000_000;
/// Lines of 1 KiB that a slow reader takes per second.
const LINES_PER_SECOND: usize = 2000;

#[tokio::test]
async fn exec_has_input_both_outputs_and_an_exit_code() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    let sh = |options: &str, script: &str, over| {
        row(&format!("exec{options} {{pod}} -- sh -c"))
            .word(script)
            .over(over)
    };
    for over in BOTH {
        let rows = [
            sh("", "echo out; echo err >&2; exit 7", over)
                .exits(7)
                .says("out\n"),
            sh("", "echo out; echo err >&2; exit 7", over)
                .exits(7)
                .says("err\n"),
            sh(" -i", "cat; echo end", over)
                .stdin("from here\n")
                .says("from here\nend\n"),
            // The end of the input arrives while the outputs continue.
            sh(" -i", "wc -c; echo end >&2", over)
                .stdin(&"x".repeat(3_000_000))
                .says("3000000"),
            sh("", "head -c 3000000 /dev/zero | tr '\\0' y", over).says("yyyy"),
            row("exec {pod} -- nosuch-program")
                .over(over)
                .exits(1)
                .says("nosuch-program"),
        ];
        check(world, &rows).await?;
    }
    Ok(())
}

/// A program may pause, and full buffers must not count as a dead peer, even after the 30 s at which TCP
/// would give up. SPDY would lose the input and exit with 0.
#[tokio::test]
async fn input_to_a_slow_reader_arrives_whole() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    let mut calls = JoinSet::new();
    for way in CallRoute::TUNNELLED {
        for over in BOTH {
            let exec = [
                "exec",
                "-i",
                world.pod(0),
                "--",
                "sh",
                "-c",
                "sleep 35; wc -c",
            ];
            let exec = world.kubectl(way).transport(over).args(exec);
            let exec = exec
                .stdin(vec![b'x'; LARGE_INPUT_BYTES])
                .deadline(STEP_DEADLINE + STEP_DEADLINE + STEP_DEADLINE);
            calls.spawn(async move { (way, over, exec.run().await) });
        }
    }
    while let Some(call) = calls.join_next().await {
        let (way, over, output) = call?;
        let output = output?;
        assert_eq!(
            output.text().trim(),
            LARGE_INPUT_BYTES.to_string(),
            "{way:?} {over:?}: {output:?}"
        );
        assert_eq!(output.stderr, "", "{way:?} {over:?}");
    }
    Ok(())
}

/// kubectl pings every five seconds. A kube-apiserver that has closed by then answers with a reset, which
/// loses up to megabytes of output; SPDY would not report it.
#[tokio::test]
async fn slow_reader_gets_all_of_an_output_whose_program_has_ended_long_ago() -> anyhow::Result<()>
{
    let world = KubectlWorld::shared().await?;
    let mut calls = JoinSet::new();
    // Varies the time between a ping and the end.
    for (seconds, way) in (7..12).zip(CallRoute::TUNNELLED.into_iter().cycle()) {
        for over in BOTH {
            let lines = seconds * LINES_PER_SECOND;
            let script = format!("yes {} | head -n {lines}", "x".repeat(1023));
            let exec = ["exec", world.pod(0), "--", "sh", "-c", &script];
            let mut exec = world.kubectl(way).transport(over).args(exec).spawn()?;
            calls.spawn(async move {
                let mut read = 0;
                while exec.next_line().await?.is_some() {
                    read += 1;
                    if read % (LINES_PER_SECOND / 20) == 0 {
                        sleep(Duration::from_millis(50)).await;
                    }
                }
                let ended = exec.wait().await?;
                anyhow::Ok((read, lines, ended.code(), exec.stderr(), over))
            });
        }
    }
    while let Some(call) = calls.join_next().await {
        let (read, lines, code, stderr, over) = call??;
        assert_eq!((read, code), (lines, Some(0)), "{over:?}: {stderr}");
    }
    Ok(())
}

/// kubectl falls back silently. A WebSocket starts with GET, SPDY with POST.
#[tokio::test]
async fn exec_uses_the_requested_transport() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    for (over, verb) in [
        (UpgradeProtocol::WebSocket, "get"),
        (UpgradeProtocol::Spdy, "create"),
    ] {
        let mark = format!("mark-{verb}");
        let echo = row("exec {pod} -- echo").word(&mark).over(over);
        check(world, &[echo.says("mark-")]).await?;
        let marked = format!("command={mark}");
        let events = world
            .audited(4, |event| {
                event["requestURI"]
                    .as_str()
                    .is_some_and(|uri| uri.contains(&marked))
            })
            .await?;
        for event in events {
            assert_eq!(event["verb"], verb, "{event}");
            assert_eq!(event["responseStatus"]["code"], 101, "{event}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn exec_on_a_terminal_has_its_size_follows_it_and_ends_by_ctrl_c() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    for way in CallRoute::ALL {
        for over in BOTH {
            let script = "while stty size; do read -r line; done";
            let exec = ["exec", "-it", world.pod(0), "--", "sh", "-c", script];
            let exec = world.kubectl(way).transport(over).args(exec);
            let mut terminal = exec.terminal(24, 80)?;
            terminal.type_until("\r", "24 80", STEP_DEADLINE).await?;
            terminal.resize(41, 132)?;
            terminal.type_until("\r", "41 132", STEP_DEADLINE).await?;
            terminal.write("\x03")?;
            assert_eq!(
                terminal.wait(STEP_DEADLINE).await?.code(),
                Some(130),
                "{way:?} {over:?}"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn attach_reaches_the_main_process_until_its_input_ends() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    for way in CallRoute::ALL {
        for over in BOTH {
            let attach = world.kubectl(way).transport(over).deadline(STEP_DEADLINE);
            let mut attach = attach.args(["attach", "-i", world.pod(1)]).spawn()?;
            for line in ["hello", "and again"] {
                attach.write(format!("{line}\n").as_bytes()).await?;
                assert_eq!(
                    attach.next_line().await?.as_deref(),
                    Some(line),
                    "{way:?} {over:?}"
                );
            }
            attach.close_stdin();
            assert_eq!(attach.next_line().await?, None, "{way:?} {over:?}");
            assert!(attach.wait().await?.success(), "{way:?} {over:?}");
        }
    }
    Ok(())
}
