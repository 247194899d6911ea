//! REGISTER_BROKER: a broker tells its topics.
//!
//! A registration that says what is known already is answered in place, without going through its body: the version, the lengths
//! and the checksum tell. So is a small one. One with a large body, or one
//! that would have to wait for another, is read and applied on a blocking thread, so that route queries do not wait behind it.

use std::sync::Arc;

use remoting::body::register::{self, RegisterBrokerBody};
use remoting::header::{self, RegisterBrokerResponse};
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};
use tokio::sync::Semaphore;

use crate::kv::{KvStore, ORDER_TOPIC_CONFIG};
use crate::routes::live::{Claim, Link, Print, checksum};
use crate::routes::{Registered, Registration, Routes};
use crate::settings::Settings;

/// Bodies up to this many bytes are applied in place.
const SMALL: usize = 32 * 1024;
/// The same for compressed bodies: topics of similar names take a hundredth of their plain size.
const SMALL_COMPRESSED: usize = 1024;

/// The field of a broker's or client's zone; not part of the header.
pub(super) const ZONE_NAME: &str = "__ZONE_NAME";

/// The handler.
pub struct RegisterBroker {
    registrar: Arc<Registrar>,
    /// How many more may be read on blocking threads.
    turns: Arc<Semaphore>,
}

impl RegisterBroker {
    /// The handler over these.
    pub fn new(routes: Arc<Routes>, kv: Arc<KvStore>, settings: Arc<Settings>) -> RegisterBroker {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let turns = Arc::new(Semaphore::new((processors / 2).max(1)));
        RegisterBroker { registrar: Arc::new(Registrar { routes, kv, settings }), turns }
    }
}

/// What an application needs on whatever thread it runs.
struct Registrar {
    routes: Arc<Routes>,
    kv: Arc<KvStore>,
    settings: Arc<Settings>,
}

/// What of the request is needed to read its body.
#[derive(Clone, Copy)]
struct Format {
    compressed: bool,
    version: i32,
    print: Print,
}

impl Handler for RegisterBroker {
    type Request<'a> = header::RegisterBroker<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let body = cx.body();
        let version = cx.request().version;
        let peek = register::peek(body, request.compressed, version);
        let volatile = peek.as_ref().map_or(0..0, |peek| peek.volatile.clone());
        let zone = cx.request().fields.get(ZONE_NAME).map(|zone| zone.to_cow());
        let registration = Registration {
            cluster: &request.cluster_name,
            addr: &request.broker_addr,
            name: &request.broker_name,
            id: request.broker_id,
            ha_addr: &request.ha_server_addr,
            zone: zone.as_deref(),
            timeout_millis: request.heartbeat_timeout_millis,
            acting_master: request.enable_acting_master,
            link: Link::new(cx.conn()),
        };
        let routes = &self.registrar.routes;
        let claim = Claim::of(body, volatile.clone(), request.body_crc32);
        if let (Some(peek), Some(claim)) = (&peek, &claim)
            && let Some(registered) = routes.refresh_claimed(&registration, &peek.version, claim)
        {
            return self.registrar.reply(registered).into();
        }
        let (print, crc) = Print::of(body, volatile);
        // 0 stands for "not computed".
        if request.body_crc32 != 0 && checksum(crc) != request.body_crc32 {
            tracing::warn!(client = %cx.conn().client(), broker = registration.name, "registration with a wrong checksum");
            return Reply::error(ResponseCode::SYSTEM_ERROR, "crc32 not match").into();
        }
        // With a checksum the claim has said it all.
        if let (Some(peek), None) = (&peek, &claim)
            && let Some(registered) = routes.refresh(&registration, &peek.version, print)
        {
            return self.registrar.reply(registered).into();
        }
        let format = Format { compressed: request.compressed, version, print };
        let small = if request.compressed { SMALL_COMPRESSED } else { SMALL };
        if body.len() <= small && !routes.is_busy() {
            return self.registrar.apply(&registration, body, format).into();
        }
        let body = body.to_vec();
        let owned = OwnedRegistration::of(&registration);
        let (registrar, turns) = (self.registrar.clone(), self.turns.clone());
        Outcome::Later(Box::pin(async move {
            let _turn = turns.acquire().await;
            let task = tokio::task::spawn_blocking(move || registrar.apply(&owned.borrow(), &body, format));
            task.await.unwrap_or_else(|error| Reply::error(ResponseCode::SYSTEM_ERROR, error.to_string()))
        }))
    }
}

impl Registrar {
    fn apply(&self, registration: &Registration<'_>, body: &[u8], format: Format) -> Reply {
        let body = match RegisterBrokerBody::read(body, format.compressed, format.version) {
            Ok(body) => body,
            Err(error) => {
                tracing::warn!(broker = registration.name, addr = registration.addr, %error, "registration not read");
                return Reply::error(
                    ResponseCode::SYSTEM_ERROR,
                    "org.apache.rocketmq.remoting.exception.RemotingCommandException: Failed to decode RegisterBrokerBody",
                );
            }
        };
        let config = self.settings.namesrv.load();
        let delete_missing = config.delete_topic_with_broker_registration;
        let notify = config.notify_min_broker_id_changed;
        match self.routes.register(registration, body, format.print, delete_missing, notify) {
            Ok(registered) => self.reply(registered),
            Err(_) => Reply::error(ResponseCode::SYSTEM_ERROR, "register broker failed"),
        }
    }

    fn reply(&self, registered: Registered) -> Reply {
        let header = RegisterBrokerResponse {
            ha_server_addr: registered.ha_addr.map(Into::into),
            master_addr: registered.master_addr.map(Into::into),
        };
        let order = self.settings.namesrv.load().return_order_topic_config_to_broker;
        let body = order.then(|| self.kv.list(ORDER_TOPIC_CONFIG)).flatten();
        Reply::ok().header(&header).body(body.unwrap_or_default())
    }
}

/// A [`Registration`] that goes to another thread.
struct OwnedRegistration {
    cluster: String,
    addr: String,
    name: String,
    id: i64,
    ha_addr: String,
    zone: Option<String>,
    timeout_millis: Option<i64>,
    acting_master: Option<bool>,
    link: Link,
}

impl OwnedRegistration {
    fn of(registration: &Registration<'_>) -> OwnedRegistration {
        OwnedRegistration {
            cluster: registration.cluster.to_owned(),
            addr: registration.addr.to_owned(),
            name: registration.name.to_owned(),
            id: registration.id,
            ha_addr: registration.ha_addr.to_owned(),
            zone: registration.zone.map(str::to_owned),
            timeout_millis: registration.timeout_millis,
            acting_master: registration.acting_master,
            link: registration.link.clone(),
        }
    }

    fn borrow(&self) -> Registration<'_> {
        Registration {
            cluster: &self.cluster,
            addr: &self.addr,
            name: &self.name,
            id: self.id,
            ha_addr: &self.ha_addr,
            zone: self.zone.as_deref(),
            timeout_millis: self.timeout_millis,
            acting_master: self.acting_master,
            link: self.link.clone(),
        }
    }
}
