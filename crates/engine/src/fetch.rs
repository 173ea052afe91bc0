//! Requests that filters make themselves.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use sluice_conn::{Content, Reuse, Upstream};
use sluice_filter::{Fetch, FetchFault, Fetched, Fetcher, Fetching};
use sluice_message::{BodyLength, FaultKind, Method, RequestHead, SpaceExhausted, Version};
use sluice_net::Deadline;
use sluice_upstream::{Ask, Breaker, Cluster, Server, Visit};
use sluice_wire::proxy::{Owner, encode};

use crate::forward::received_by;
use crate::local::Worker;
use crate::proxy::solo::{Whole, ask};
use crate::spare::Spare;

/// Makes requests for what runs on a worker beside exchanges.
pub(crate) struct WorkersFetcher(pub(crate) Rc<Worker>);

impl Fetcher for WorkersFetcher {
    fn cluster(&self, name: &str) -> Option<usize> {
        self.0.view().clusters.iter().position(|cluster| cluster.plan().name == name)
    }

    fn fetch(&self, request: Fetch) -> Fetching {
        let cluster = self.0.view().clusters.get(request.cluster).map(Rc::clone);
        Box::pin(fetch(Rc::clone(&self.0), cluster, request))
    }
}

/// Asks the cluster; within the time that the request may take.
pub(crate) async fn fetch(
    worker: Rc<Worker>,
    cluster: Option<Rc<Cluster>>,
    request: Fetch,
) -> Result<Fetched, FetchFault> {
    let cluster = cluster.ok_or(FetchFault::Failed(FaultKind::NoServer))?;
    let deadline = Deadline::new();
    let timeout = request.timeout;
    let mut spare = worker.spares.take();
    // Beside the rest of what is spare, which changes while the head is read.
    let mut head = std::mem::take(&mut spare.request);
    let asked = deadline.limit(timeout, deliver(&cluster, &request, (&mut head, &mut spare))).await;
    spare.request = head;
    let result = asked.unwrap_or(Err(FetchFault::TimedOut));
    // What broke off in the middle is not used again.
    if result.is_ok() {
        worker.spares.put(spare);
    }
    result
}

async fn deliver(
    cluster: &Rc<Cluster>,
    request: &Fetch,
    (head, spare): (&mut RequestHead, &mut Spare),
) -> Result<Fetched, FetchFault> {
    let failed = FetchFault::Failed;
    write_head(head, request).map_err(|_| failed(FaultKind::Exhausted))?;
    let _admitted = cluster.admit(Breaker::Requests).map_err(|fault| failed(fault.kind))?;
    cluster.on_request();
    let wanted = Ask { head, client: request.client, avoid: &[] };
    let server = cluster.choose(&wanted).map(Rc::clone).ok_or(failed(FaultKind::NoServer))?;
    let _visit = Visit::try_new(cluster, &server).ok_or(failed(FaultKind::ServersBusy))?;
    name_host(head, (cluster, &server), request).map_err(|_| failed(FaultKind::Exhausted))?;
    let mut header = Vec::new();
    if let Some(version) = cluster.settings().proxy_protocol {
        // For nobody but ourselves.
        encode(&mut header, version, Owner::Sender);
    }
    let whole = Whole { head, content: &request.body, trailers: None, header: &header };
    let channel = match ask((cluster, &server), whole, spare).await {
        Ok(channel) => channel,
        Err(fault) => {
            cluster.on_failure(&server, fault);
            cluster.on_blame(&server, fault);
            return Err(failed(fault.kind));
        }
    };
    let halves = (&mut spare.receiver, &mut spare.sender);
    let upstream = Upstream::resume(channel, halves, Reuse::Reused);
    let mut body = Vec::new();
    let read = poll_fn(|cx| {
        loop {
            match upstream.receiver.poll_content(upstream.channel.lend(), cx) {
                Poll::Ready(Ok(Content::Piece)) => {
                    let piece = upstream.receiver.piece();
                    if piece.len() > request.limit.saturating_sub(body.len()) {
                        return Poll::Ready(Err(FetchFault::TooLarge));
                    }
                    body.extend_from_slice(piece);
                    let taken = piece.len();
                    upstream.receiver.advance(taken);
                }
                Poll::Ready(Ok(Content::End)) => return Poll::Ready(Ok(())),
                Poll::Ready(Err(kind)) => return Poll::Ready(Err(failed(kind))),
                Poll::Pending => return Poll::Pending,
            }
        }
    });
    read.await?;
    cluster.on_whole_answer(&server, spare.response.status);
    cluster.meter().received_bytes.add(upstream.receiver.received());
    cluster.meter().sent_bytes.add(upstream.sender.sent());
    let trailers = upstream.receiver.trailers().cloned();
    if let Some(stream) = upstream.into_idle(&spare.response) {
        cluster.keep(&server, stream);
    }
    let response = &spare.response;
    Ok(Fetched { status: response.status, fields: response.fields.clone(), body, trailers })
}

/// The head of the request, as a decoder would have made it.
fn write_head(head: &mut RequestHead, request: &Fetch) -> Result<(), SpaceExhausted> {
    let mut fields = std::mem::take(&mut head.fields);
    fields.clear();
    *head = RequestHead { fields, ..RequestHead::default() };
    head.method = Method::of(&request.method);
    head.method_text = head.fields.append(&request.method)?;
    head.target = head.fields.append(&request.target)?;
    let cut = request.target.iter().position(|byte| *byte == b'?');
    let path = request.target.get(..cut.unwrap_or(request.target.len())).unwrap_or_default();
    let query = cut.and_then(|cut| request.target.get(cut + 1..)).unwrap_or_default();
    head.path = head.fields.append(path)?;
    head.query = head.fields.append(query)?;
    head.fields.push_all(&request.fields)?;
    // It may lead back here, and to whoever made it.
    head.fields.push(b"via", received_by(Version::Http11))?;
    head.body = match u64::try_from(request.body.len()) {
        Ok(0) => BodyLength::Empty,
        Ok(length) => BodyLength::Known(length),
        Err(_) => return Err(SpaceExhausted),
    };
    Ok(())
}

/// The host that the request is for.
fn name_host(
    head: &mut RequestHead,
    (cluster, server): (&Cluster, &Server),
    request: &Fetch,
) -> Result<(), SpaceExhausted> {
    let host = match cluster.settings().host.as_deref() {
        _ if !request.host.is_empty() => &request.host,
        Some(host) => host,
        None => server.label().as_bytes(),
    };
    head.authority = head.fields.append(host)?;
    head.fields.push(b"host", host)
}
