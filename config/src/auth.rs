//! The table of [`AuthConfig`].

use crate::config_keys;

config_keys! {
/// Authentication and authorization of requests.
pub struct AuthConfig {
    "configName" config_name: Option<String> = None, inert,
        "Name of the broker, set at start.";
    "clusterName" cluster_name: Option<String> = None, inert,
        "Name of the cluster, set at start.";
    "authConfigPath" auth_config_path: Option<String> = None, inert,
        "Directory of users and access lists, set at start.";
    "authenticationEnabled" authentication_enabled: bool = false, inert,
        "Check who sends a request.";
    "authenticationProvider" authentication_provider: Option<String> = None, inert,
        "Java class that checks who sends a request.";
    "authenticationMetadataProvider" authentication_metadata_provider: Option<String> = None, inert,
        "Java class that keeps the users.";
    "authenticationStrategy" authentication_strategy: Option<String> = None, inert,
        "Java class that decides how often to check.";
    "authenticationWhitelist" authentication_whitelist: Option<String> = None, inert,
        "Request codes that need no check, separated by commas.";
    "initAuthenticationUser" init_authentication_user: Option<String> = None, inert,
        "First user, as JSON with name and password.";
    "innerClientAuthenticationCredentials" inner_client_authentication_credentials: Option<String> = None, inert,
        "Name and password of the broker itself, as JSON.";
    "authorizationEnabled" authorization_enabled: bool = false, inert,
        "Check what a user may do.";
    "authorizationProvider" authorization_provider: Option<String> = None, inert,
        "Java class that checks what a user may do.";
    "authorizationMetadataProvider" authorization_metadata_provider: Option<String> = None, inert,
        "Java class that keeps the access lists.";
    "authorizationStrategy" authorization_strategy: Option<String> = None, inert,
        "Java class that decides how often to check.";
    "authorizationWhitelist" authorization_whitelist: Option<String> = None, inert,
        "Request codes that every user may send, separated by commas.";
    "migrateAuthFromV1Enabled" migrate_auth_from_v1_enabled: bool = false, inert,
        "Take over the access lists of version 4.";
    "userCacheMaxNum" user_cache_max_num: i32 = 1000, inert,
        "Users in the cache.";
    "userCacheExpiredSecond" user_cache_expired_second: i32 = 600, inert,
        "Seconds that a user stays in the cache.";
    "userCacheRefreshSecond" user_cache_refresh_second: i32 = 60, inert,
        "Seconds after which a cached user is read again.";
    "aclCacheMaxNum" acl_cache_max_num: i32 = 1000, inert,
        "Access lists in the cache.";
    "aclCacheExpiredSecond" acl_cache_expired_second: i32 = 600, inert,
        "Seconds that an access list stays in the cache.";
    "aclCacheRefreshSecond" acl_cache_refresh_second: i32 = 60, inert,
        "Seconds after which a cached access list is read again.";
    "statefulAuthenticationCacheMaxNum" stateful_authentication_cache_max_num: i32 = 10000, inert,
        "Connections whose sender is remembered.";
    "statefulAuthenticationCacheExpiredSecond" stateful_authentication_cache_expired_second: i32 = 60, inert,
        "Seconds that a connection's sender is remembered.";
    "statefulAuthorizationCacheMaxNum" stateful_authorization_cache_max_num: i32 = 10000, inert,
        "Decisions that are remembered.";
    "statefulAuthorizationCacheExpiredSecond" stateful_authorization_cache_expired_second: i32 = 60, inert,
        "Seconds that a decision is remembered.";
}}
