//! Users and access rules. What is created or changed is the body.

use std::borrow::Cow;

use crate::header;

header! {
    /// AUTH_CREATE_USER (3001).
    pub struct CreateUser<'a> {
        "username" username: Option<Cow<'a, str>>,
    }
}

header! {
    /// AUTH_UPDATE_USER (3002).
    pub struct UpdateUser<'a> {
        "username" username: Option<Cow<'a, str>>,
    }
}

header! {
    /// AUTH_DELETE_USER (3003).
    pub struct DeleteUser<'a> {
        "username" username: Option<Cow<'a, str>>,
    }
}

header! {
    /// AUTH_GET_USER (3004).
    pub struct GetUser<'a> {
        "username" username: Option<Cow<'a, str>>,
    }
}

header! {
    /// AUTH_LIST_USER (3005).
    pub struct ListUsers<'a> {
        "filter" filter: Option<Cow<'a, str>>,
    }
}

header! {
    /// AUTH_CREATE_ACL (3006).
    pub struct CreateAcl<'a> {
        "subject" subject: Option<Cow<'a, str>>,
    }
}

header! {
    /// AUTH_UPDATE_ACL (3007).
    pub struct UpdateAcl<'a> {
        "subject" subject: Option<Cow<'a, str>>,
    }
}

header! {
    /// AUTH_DELETE_ACL (3008).
    pub struct DeleteAcl<'a> {
        "subject" subject: Option<Cow<'a, str>>,
        "policyType" policy_type: Option<Cow<'a, str>>,
        "resource" resource: Option<Cow<'a, str>>,
    }
}

header! {
    /// AUTH_GET_ACL (3009).
    pub struct GetAcl<'a> {
        "subject" subject: Option<Cow<'a, str>>,
    }
}

header! {
    /// AUTH_LIST_ACL (3010).
    pub struct ListAcls<'a> {
        "subjectFilter" subject_filter: Option<Cow<'a, str>>,
        "resourceFilter" resource_filter: Option<Cow<'a, str>>,
    }
}
