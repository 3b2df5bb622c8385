//! The words of the stories.
//!
//! Plain ASCII, so that a character-level model needs few symbols. The article is chosen by the
//! first letter, so no word starts with a vowel that sounds like a consonant ("a useful") or the
//! reverse ("an hour").

/// Phrases of which one is drawn each time the name is used; `None` for an unknown name.
pub(super) fn phrases(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "when" => WHEN,
        "little" => LITTLE,
        "glad" => GLAD,
        "sad" => SAD,
        _ => return None,
    })
}

const WHEN: &[&str] = &[
    "one [sunny|rainy|windy|cold|warm|cloudy|foggy|bright] [morning|day|afternoon|evening]",
    "one [sunny|rainy|windy|cold|warm] [morning|day|afternoon]",
    "one [spring|summer|autumn|winter] [morning|day|evening]",
    "one day",
    "one morning",
    "early one morning",
    "on a [sunny|rainy|windy|snowy|quiet] [day|morning|afternoon]",
];

const LITTLE: &[&str] = &[
    "little", "small", "young", "kind", "brave", "curious", "clever", "quiet", "cheerful",
    "gentle", "merry", "little", "small",
];

const GLAD: &[&str] = &["happy", "glad", "proud", "happy", "full of joy"];

const SAD: &[&str] = &["sad", "worried", "unhappy", "sad", "lonely"];

pub(super) const GIRLS: &[&str] = &[
    "Alice", "Anna", "Bella", "Betty", "Clara", "Cora", "Daisy", "Dora", "Ella", "Emma", "Eva",
    "Flora", "Grace", "Hazel", "Ida", "Ivy", "Jane", "Julia", "Kate", "Lena", "Lily", "Lucy",
    "Maya", "Mia", "Nina", "Nora", "Olive", "Paula", "Rosa", "Ruby", "Sara", "Sofia", "Tessa",
    "Tilly", "Vera", "Wanda", "Zoe",
];

pub(super) const BOYS: &[&str] = &[
    "Adam", "Anton", "Ben", "Bruno", "Carl", "Dan", "David", "Eddie", "Felix", "Finn", "Fred",
    "George", "Hugo", "Ian", "Jack", "Jacob", "Joe", "Karl", "Leo", "Liam", "Luke", "Max", "Milo",
    "Noah", "Oscar", "Otto", "Paul", "Peter", "Quinn", "Ralph", "Sam", "Simon", "Theo", "Tim",
    "Toby", "Tom", "Victor", "Walter",
];

/// Names of animals; the first half are female.
pub(super) const ANIMAL_NAMES: &[&str] = &[
    "Clover", "Misty", "Fern", "Willow", "Poppy", "Dot", "Pepper", "Hazel", "Honey", "Berry",
    "Pip", "Rusty", "Tuft", "Button", "Biscuit", "Moss", "Patch", "Bramble", "Acorn", "Hops",
];

pub(super) const ANIMALS: &[&str] = &[
    "rabbit", "fox", "bear", "mouse", "owl", "hedgehog", "squirrel", "duck", "frog", "badger",
    "otter", "mole", "goat", "beaver", "turtle", "crow", "lamb", "pony",
];

/// People who give advice: the name, and whether it is female.
pub(super) const ELDERS: &[(&str, bool)] = &[
    ("Grandma", true),
    ("Grandpa", false),
    ("{hero.his} mother", true),
    ("{hero.his} father", false),
    ("{hero.his} aunt", true),
    ("{hero.his} uncle", false),
    ("the teacher", true),
    ("the old gardener", false),
    ("the baker", false),
];

pub(super) const ANIMAL_ELDERS: &[(&str, bool)] = &[
    ("{hero.his} mother", true),
    ("{hero.his} father", false),
    ("the old owl", false),
    ("the wise turtle", true),
    ("the old badger", false),
    ("Grandmother Goose", true),
    ("the wise old toad", false),
];

pub(super) const STRANGERS: &[(&str, bool)] = &[
    ("old woman", true),
    ("old man", false),
    ("tired sailor", false),
    ("young singer", true),
    ("poor fisherman", false),
    ("lonely traveler", false),
    ("tired old soldier", false),
    ("woman in a gray coat", true),
];

pub(super) const ANIMAL_STRANGERS: &[(&str, bool)] = &[
    ("tired goose", true),
    ("old donkey", false),
    ("gray wolf", false),
    ("white swan", true),
    ("old cat", true),
    ("lonely stork", false),
];

/// Things, and what one does with them.
pub(super) const THINGS: &[(&str, &str)] = &[
    ("kite", "flew it high in the wind"),
    ("drum", "played it all day long"),
    ("toy boat", "sailed it on the pond"),
    ("book", "read it every night"),
    ("lantern", "lit it every evening"),
    ("bell", "rang it every morning"),
    ("ball", "played with it every day"),
    ("flute", "played it softly in the evening"),
    ("scarf", "wore it every day"),
    ("hat", "wore it everywhere"),
    ("map", "looked at it for hours"),
    ("whistle", "blew it loudly"),
    ("basket", "filled it with berries"),
    ("cup", "drank warm milk from it"),
    ("key", "kept it on a string"),
    ("feather", "kept it in a small box"),
    ("shell", "listened to the sea in it"),
    ("stone", "kept it in a small bag"),
    ("coin", "looked at it every night"),
    ("blanket", "slept under it every night"),
    ("bucket", "filled it with sand"),
    ("puppet", "made it dance"),
    ("mirror", "looked into it every morning"),
    ("umbrella", "carried it in the rain"),
];

/// What breaks when it falls.
pub(super) const TREASURES: &[&str] = &[
    "cup",
    "flute",
    "drum",
    "mirror",
    "lantern",
    "toy boat",
    "clock",
    "plate",
    "jar",
    "vase",
    "wooden bird",
    "music box",
];

pub(super) const LOOKS: &[&str] = &[
    "red", "blue", "green", "yellow", "white", "purple", "orange", "golden", "silver", "little",
    "pretty", "tiny", "shiny", "old",
];

/// Places, and the phrase for being there.
pub(super) const PLACES: &[(&str, &str)] = &[
    ("the forest", "in the forest"),
    ("the river", "by the river"),
    ("the lake", "by the lake"),
    ("the hill", "on the hill"),
    ("the meadow", "in the meadow"),
    ("the garden", "in the garden"),
    ("the market", "at the market"),
    ("the old mill", "at the old mill"),
    ("the barn", "in the barn"),
    ("the beach", "on the beach"),
    ("the bridge", "under the bridge"),
    ("the pond", "by the pond"),
    ("the orchard", "in the orchard"),
    ("the cave", "in the cave"),
    ("the harbor", "at the harbor"),
    ("the park", "in the park"),
    ("the field", "in the field"),
    ("the old tower", "in the old tower"),
];

/// Far places, and the phrase for being there.
pub(super) const FAR_PLACES: &[(&str, &str)] = &[
    ("the sea", "by the sea"),
    ("the mountain", "on the mountain"),
    ("the castle", "at the gate of the castle"),
    ("the big city", "in the big city"),
    ("the island", "on the island"),
    ("the great waterfall", "at the great waterfall"),
    ("the lighthouse", "at the lighthouse"),
];

pub(super) const SPOTS: &[&str] = &[
    "under a bush",
    "behind a tree",
    "in the tall grass",
    "under an old log",
    "behind a big stone",
    "in a hollow tree",
    "under the leaves",
    "between two rocks",
    "behind the fence",
    "under a bench",
    "in a dark corner",
];

/// Foods that fit in a basket and can be cut into pieces.
pub(super) const FOODS: &[&str] = &[
    "apple pie",
    "bread",
    "honey cake",
    "cheese",
    "plum cake",
    "berry pie",
    "nut bread",
    "corn bread",
    "carrot cake",
    "cherry pie",
    "gingerbread",
    "pumpkin pie",
];

/// Animals that pass by and say nothing.
pub(super) const PASSERS: &[&str] =
    &["snail", "cow", "sparrow", "cat", "beetle", "sheep", "goose", "toad", "butterfly"];

pub(super) const PETS: &[&str] =
    &["kitten", "puppy", "bird", "hedgehog", "lamb", "squirrel", "owl", "fox", "rabbit"];

pub(super) const PET_NAMES: &[&str] = &["Fluff", "Star", "Lucky", "Sunny", "Snow", "Spot"];

/// A contest, its craft, and what one did in it.
pub(super) const CONTESTS: &[(&str, &str, &str)] = &[
    ("race", "running", "ran"),
    ("singing contest", "singing", "sang"),
    ("dancing contest", "dancing", "danced"),
    ("swimming race", "swimming", "swam"),
    ("jumping contest", "jumping", "jumped"),
    ("cooking contest", "cooking", "cooked"),
    ("painting contest", "painting", "painted"),
    ("climbing contest", "climbing", "climbed"),
];

pub(super) const FEARS: &[&str] =
    &["the dark", "thunder", "deep water", "high places", "the wind", "the night"];

pub(super) const PLANTS: &[&str] =
    &["sunflower", "apple tree", "pumpkin", "rose bush", "cherry tree", "bean plant"];

pub(super) const SKILLS: &[&str] = &[
    "swim",
    "whistle",
    "read",
    "skate",
    "climb trees",
    "bake bread",
    "dance",
    "sing",
    "fish",
    "paint",
    "juggle",
];
