//! Enums whose values have a name in JSON.

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$item_doc:meta])* $item:ident = $id:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
        pub enum $name {
            $($(#[$item_doc])* #[serde(rename = $id)] $item,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$item),*];

            /// Its name in JSON.
            pub const fn id(self) -> &'static str {
                match self {
                    $(Self::$item => $id,)*
                }
            }
        }
    };
}

pub(crate) use named;
