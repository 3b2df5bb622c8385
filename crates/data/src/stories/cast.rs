//! The people, things and places of one story, drawn once and the same in every sentence.

use super::{chance::StoryRandom, words};

/// The people, things and places of one story.
pub(super) struct Cast {
    hero: Person,
    friend: Person,
    elder: Person,
    stranger: Person,
    thing: (&'static str, &'static str),
    treasure: &'static str,
    look: &'static str,
    places: [(&'static str, &'static str); 2],
    far: (&'static str, &'static str),
    spots: [&'static str; 2],
    foods: [&'static str; 2],
    passer: &'static str,
    pet: &'static str,
    pet_name: &'static str,
    contest: (&'static str, &'static str, &'static str),
    fear: &'static str,
    plant: &'static str,
    skill: &'static str,
}

struct Person {
    name: &'static str,
    kind: &'static str,
    is_she: bool,
}

impl Cast {
    /// Children or animals, with names to match; never the same name, kind of animal, place or food
    /// twice.
    pub(super) fn draw(chance: &mut StoryRandom) -> Self {
        let are_animals = chance.one_in(3);
        let hero = Person::draw(chance, are_animals);
        let friend = loop {
            let friend = Person::draw(chance, are_animals);
            if friend.name != hero.name && !(are_animals && friend.kind == hero.kind) {
                break friend;
            }
        };
        let (elders, strangers) = if are_animals {
            (words::ANIMAL_ELDERS, words::ANIMAL_STRANGERS)
        } else {
            (words::ELDERS, words::STRANGERS)
        };
        let titled = |(name, is_she): (&'static str, bool)| Person { name, kind: "", is_she };
        Self {
            elder: titled(chance.pick(elders)),
            stranger: titled(chance.pick(strangers)),
            thing: chance.pick(words::THINGS),
            treasure: chance.pick(words::TREASURES),
            look: chance.pick(words::LOOKS),
            places: chance.pick_two(words::PLACES),
            far: chance.pick(words::FAR_PLACES),
            spots: chance.pick_two(words::SPOTS),
            foods: chance.pick_two(words::FOODS),
            passer: chance.pick(words::PASSERS),
            pet: loop {
                let pet = chance.pick(words::PETS);
                if pet != hero.kind && pet != friend.kind {
                    break pet;
                }
            },
            pet_name: chance.pick(words::PET_NAMES),
            contest: chance.pick(words::CONTESTS),
            fear: chance.pick(words::FEARS),
            plant: chance.pick(words::PLANTS),
            skill: chance.pick(words::SKILLS),
            hero,
            friend,
        }
    }

    /// The text for a name in braces; `None` for an unknown name.
    pub(super) fn word(&self, name: &str) -> Option<&'static str> {
        let (role, form) = name.split_once('.').unwrap_or((name, ""));
        let person = match role {
            "hero" => &self.hero,
            "friend" => &self.friend,
            "elder" => &self.elder,
            "stranger" => &self.stranger,
            _ => return self.thing(name),
        };
        person.form(form)
    }

    fn thing(&self, name: &str) -> Option<&'static str> {
        Some(match name {
            "thing" => self.thing.0,
            "thing.use" => self.thing.1,
            "treasure" => self.treasure,
            "look" => self.look,
            "place" => self.places[0].0,
            "at" => self.places[0].1,
            "place2" => self.places[1].0,
            "at2" => self.places[1].1,
            "far" => self.far.0,
            "atfar" => self.far.1,
            "spot" => self.spots[0],
            "spot2" => self.spots[1],
            "food" => self.foods[0],
            "food2" => self.foods[1],
            "passer" => self.passer,
            "pet" => self.pet,
            "petname" => self.pet_name,
            "contest" => self.contest.0,
            "contest.doing" => self.contest.1,
            "contest.did" => self.contest.2,
            "fear" => self.fear,
            "plant" => self.plant,
            "skill" => self.skill,
            _ => return None,
        })
    }
}

impl Person {
    fn draw(chance: &mut StoryRandom, is_animal: bool) -> Self {
        let is_she = chance.one_in(2);
        if is_animal {
            let (shes, hes) = words::ANIMAL_NAMES.split_at(words::ANIMAL_NAMES.len() / 2);
            let name = chance.pick(if is_she { shes } else { hes });
            return Self { name, kind: chance.pick(words::ANIMALS), is_she };
        }
        let (names, kind) = if is_she { (words::GIRLS, "girl") } else { (words::BOYS, "boy") };
        Self { name: chance.pick(names), kind, is_she }
    }

    fn form(&self, form: &str) -> Option<&'static str> {
        Some(match (form, self.is_she) {
            ("", _) => self.name,
            ("kind", _) => self.kind,
            ("he", true) => "she",
            ("he", false) => "he",
            ("him" | "his", true) => "her",
            ("him", false) => "him",
            ("his", false) => "his",
            ("himself", true) => "herself",
            ("himself", false) => "himself",
            _ => return None,
        })
    }
}
