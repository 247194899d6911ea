//! Which brokers there are: names, addresses, clusters, filter servers.
//!
//! One immutable snapshot for readers. A writer copies it (the brokers themselves are shared), changes the copy and
//! publishes it; brokers come and go rarely.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use remoting::body::cluster::ClusterInfo;
use remoting::body::fastjson::{self, JsonError};
use remoting::body::route::BrokerData;

/// The id of a master.
pub const MASTER_ID: i64 = 0;

/// One registered process: its cluster and its address. The same broker name has one for the master and each slave.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Instance {
    /// Cluster, as registered.
    pub cluster: String,
    /// Address that clients connect to.
    pub addr: String,
}

impl Instance {
    /// The instance of these names.
    pub fn new(cluster: &str, addr: &str) -> Instance {
        Instance { cluster: cluster.to_owned(), addr: addr.to_owned() }
    }
}

/// A broker name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Broker {
    /// The cluster of the first registration.
    pub cluster: String,
    /// Address by broker id; may be empty after a refused registration.
    pub addrs: BTreeMap<i64, String>,
    /// Whether a slave may act for a lost master.
    pub acting_master: bool,
    /// Zone, as registered.
    pub zone: Option<String>,
}

impl Broker {
    /// The least id, if there is any address.
    pub fn min_id(&self) -> Option<i64> {
        self.addrs.keys().next().copied()
    }

    /// The body that routes and cluster info show.
    pub fn data(&self, name: &str) -> BrokerData {
        BrokerData {
            broker_addrs: self.addrs.clone(),
            broker_name: Some(name.to_owned()),
            cluster: Some(self.cluster.clone()),
            enable_acting_master: self.acting_master,
            zone_name: self.zone.clone(),
        }
    }
}

/// All brokers at one moment.
#[derive(Clone, Debug, Default)]
pub struct Brokers {
    /// By name.
    pub by_name: BTreeMap<String, Arc<Broker>>,
    /// Broker names by cluster.
    pub clusters: BTreeMap<String, BTreeSet<String>>,
    /// Filter servers of an instance, where there are any.
    pub filters: HashMap<Instance, Vec<String>>,
    /// The answer to GET_BROKER_CLUSTER_INFO, made when it is first asked for.
    cluster_info: OnceLock<Bytes>,
}

impl Brokers {
    /// A copy to be changed.
    pub fn edit(&self) -> Brokers {
        Brokers { cluster_info: OnceLock::new(), ..self.clone() }
    }

    /// Whether both show the same.
    pub fn same(&self, other: &Brokers) -> bool {
        self.by_name == other.by_name && self.clusters == other.clusters && self.filters == other.filters
    }

    /// The broker of that name, to be changed.
    pub fn broker_mut(&mut self, name: &str) -> Option<&mut Broker> {
        self.by_name.get_mut(name).map(Arc::make_mut)
    }

    /// The answer to GET_BROKER_CLUSTER_INFO.
    ///
    /// # Errors
    /// None in practice.
    pub fn cluster_info(&self) -> Result<Bytes, JsonError> {
        if let Some(bytes) = self.cluster_info.get() {
            return Ok(bytes.clone());
        }
        let info = ClusterInfo {
            broker_addr_table: self.by_name.iter().map(|(name, broker)| (name.clone(), broker.data(name))).collect(),
            cluster_addr_table: self.clusters.clone(),
        };
        let bytes = Bytes::from(fastjson::to_vec(&info)?);
        Ok(self.cluster_info.get_or_init(|| bytes).clone())
    }
}
