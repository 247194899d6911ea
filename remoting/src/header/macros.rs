//! `header!`: a request or response header as a table of its fields.

/// Declares a header struct with its [`Header`](crate::Header) and [`WriteHeader`](crate::WriteHeader).
///
/// ```
/// use std::borrow::Cow;
/// remoting::header! {
///     /// Asks for the highest offset of a queue.
///     pub struct GetMaxOffset<'a>: topic {
///         "topic" topic: Cow<'a, str>,
///         "queueId" queue_id: i32,
///         "committed" committed: bool = true,
///         "liteTopic" lite_topic: Option<Cow<'a, str>>,
///     }
/// }
/// ```
/// A plain type is required, `Option<T>` may be missing, `T = value` has a default. The types are those of
/// [`FromField`](crate::fields::FromField). A struct without borrowed fields has no lifetime parameter.
///
/// Behind the name, after a colon, may stand:
/// - `rpc`: the fields `ns`, `nsd`, `bname` and `oway` come first; `topic`: these and `lo`
///   (see [`RpcRequest`](crate::header::RpcRequest));
/// - `strict`: a malformed value is an error. Otherwise one counts as missing, and is an error only where the field is
///   required. Java has both kinds of headers: those that it reads by reflection forgive.
///
/// `required` in front of a field with a default: Java's table calls it required, yet reads the default when it is
/// missing.
#[macro_export]
macro_rules! header {
    ($(#[$meta:meta])* pub struct $name:ident<$lt:lifetime> $(: $($base:ident)+)? { $($fields:tt)* }) => {
        $crate::header! { @base [$($($base)+)?] [false] [$(#[$meta])*] $name [$lt] $lt { $($fields)* } }
    };
    ($(#[$meta:meta])* pub struct $name:ident $(: $($base:ident)+)? { $($fields:tt)* }) => {
        $crate::header! { @base [$($($base)+)?] [false] [$(#[$meta])*] $name [] 'f { $($fields)* } }
    };

    (@base [topic $($base:ident)*] $strict:tt $meta:tt $name:ident $gen:tt $lt:lifetime { $($fields:tt)* }) => {
        $crate::header! { @base [rpc $($base)*] $strict $meta $name $gen $lt {
            "lo" lo: ::std::option::Option<bool>,
            $($fields)*
        } }
    };
    (@base [rpc $($base:ident)*] $strict:tt $meta:tt $name:ident $gen:tt $lt:lifetime { $($fields:tt)* }) => {
        $crate::header! { @base [$($base)*] $strict $meta $name $gen $lt {
            "ns" ns: ::std::option::Option<::std::borrow::Cow<$lt, str>>,
            "nsd" nsd: ::std::option::Option<bool>,
            "bname" bname: ::std::option::Option<::std::borrow::Cow<$lt, str>>,
            "oway" oway: ::std::option::Option<bool>,
            $($fields)*
        } }
    };
    (@base [strict] $strict:tt $meta:tt $name:ident $gen:tt $lt:lifetime $fields:tt) => {
        $crate::header! { @base [] [true] $meta $name $gen $lt $fields }
    };

    (@base [] [$strict:literal] [$(#[$meta:meta])*] $name:ident [$($gen:lifetime)?] $lt:lifetime {
        $($(#[$fmeta:meta])* $($required:ident)? $wire:literal $field:ident: $ty:ty $(= $default:expr)?,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs)]
        pub struct $name $(<$gen>)? {
            $($(#[$fmeta])* pub $field: $ty,)*
        }

        impl $(<$gen>)? ::std::default::Default for $name $(<$gen>)? {
            fn default() -> Self {
                $name { $($field: $crate::header!(@default $($default)?),)* }
            }
        }

        impl<$lt> $crate::header::Header<$lt> for $name $(<$gen>)? {
            const FIELDS: &'static [$crate::header::FieldSpec] = &[
                $($crate::header::FieldSpec {
                    name: $wire,
                    java_type: <$ty as $crate::fields::Slot<$lt>>::JAVA_TYPE,
                    required: $crate::header!(@required [$($required)?] $ty, $lt $(, $default)?),
                    default: $crate::header!(@given $($default)?),
                },)*
            ];

            fn read(fields: &$crate::fields::Fields<$lt>) -> ::std::result::Result<Self, $crate::fields::FieldError> {
                // The names as constant byte slices: the match below becomes a tree over length and bytes, where one
                // over `str` would compare with every name in turn.
                #[allow(dead_code)]
                struct Wire;
                #[allow(non_upper_case_globals)]
                impl Wire {
                    $(const $field: &'static [u8] = $wire.as_bytes();)*
                }
                $(let mut $field: ::std::option::Option<$crate::fields::Text<$lt>> = None;)*
                fields.iter().for_each(|field| match field.name.as_bytes() {
                    $(Wire::$field => $field = Some(field.value),)*
                    _ => {}
                });
                ::std::result::Result::Ok($name {
                    $($field: $crate::header!(@take $strict, $wire, $field, $ty, $lt $(, $default)?),)*
                })
            }
        }

        impl $(<$gen>)? $crate::header::WriteHeader for $name $(<$gen>)? {
            fn write(&self, sink: &mut dyn $crate::header::FieldSink) {
                let _ = &sink;
                $($crate::header::ToField::to_field(&self.$field, $wire, sink);)*
            }
        }
    };

    (@default) => { ::std::default::Default::default() };
    (@default $default:expr) => { $default };
    (@given) => { false };
    (@given $default:expr) => { true };
    (@required [required] $ty:ty, $lt:lifetime, $default:expr) => { true };
    (@required [] $ty:ty, $lt:lifetime, $default:expr) => { false };
    (@required [] $ty:ty, $lt:lifetime) => { <$ty as $crate::fields::Slot<$lt>>::REQUIRED };
    (@take $strict:literal, $wire:literal, $field:ident, $ty:ty, $lt:lifetime) => {
        <$ty as $crate::fields::Slot<$lt>>::take($wire, $field, $strict)?
    };
    (@take $strict:literal, $wire:literal, $field:ident, $ty:ty, $lt:lifetime, $default:expr) => {
        match <::std::option::Option<$ty> as $crate::fields::Slot<$lt>>::take($wire, $field, $strict)? {
            Some(value) => value,
            None => $default,
        }
    };
}
