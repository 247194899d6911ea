//! What the operator sees once both servers are up.

use std::path::Path;

/// The facts of the banner.
pub(crate) struct Banner<'a> {
    /// Where this machine reaches the name server.
    pub(crate) namesrv: &'a str,
    /// Where clients reach the broker.
    pub(crate) broker: &'a str,
    /// The broker's name.
    pub(crate) name: &'a str,
    /// Its cluster.
    pub(crate) cluster: &'a str,
    /// The directory of the store.
    pub(crate) store: &'a Path,
}

impl std::fmt::Display for Banner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { namesrv, broker, name, cluster, store } = self;
        writeln!(f, "FerroMQ {}\n", env!("CARGO_PKG_VERSION"))?;
        writeln!(f, "  name server  {namesrv}")?;
        writeln!(f, "  broker       {broker} ({name} in {cluster})")?;
        writeln!(f, "  store        {}\n", store.display())?;
        writeln!(f, "Three things to try, with the tools of Apache RocketMQ:")?;
        writeln!(f, "  sh bin/mqadmin clusterList -n {namesrv}")?;
        writeln!(f, "  sh bin/mqadmin updateTopic -n {namesrv} -c {cluster} -t TopicTest")?;
        writeln!(f, "  NAMESRV_ADDR={namesrv} sh bin/tools.sh org.apache.rocketmq.example.quickstart.Producer\n")?;
        writeln!(f, "Ctrl-C stops it.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_names_the_addresses_the_store_and_three_commands() {
        let store = Path::new("/data");
        let banner =
            Banner { namesrv: "127.0.0.1:9876", broker: "10.0.0.9:10911", name: "b", cluster: "DefaultCluster", store };
        let text = banner.to_string();
        for part in ["127.0.0.1:9876", "10.0.0.9:10911", "/data", "clusterList", "-c DefaultCluster"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(text.lines().filter(|line| line.contains(" sh bin/")).count(), 3);
    }
}
