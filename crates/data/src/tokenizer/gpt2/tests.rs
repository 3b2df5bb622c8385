//! Compares the tokens with tiktoken's, for any text.

use proptest::prelude::*;

use super::*;

fn tiktoken(text: &str) -> Vec<u32> {
    tiktoken_rs::r50k_base_singleton().encode_ordinary(text)
}

/// An encoder with so few words that they replace one another.
fn encoder(n_small: usize, n_large: usize) -> Encoder {
    Encoder(WordEncoder::with_words(Pattern::Gpt2, n_small, n_large))
}

/// Uses one encoder for many texts, so that its tables have hits and replacements.
fn assert_equal<'a>(encoder: &mut Encoder, texts: impl IntoIterator<Item = &'a str>) {
    for text in texts {
        let mut ids = Vec::new();
        encoder.encode(text, &mut ids);
        let ids = ids.into_iter().map(u32::from).collect::<Vec<_>>();
        assert_eq!(ids, tiktoken(text), "{text:?}");
        assert_eq!(encode(text), ids);
    }
}

/// Characters that the pattern or the merges treat specially.
pub(in crate::tokenizer) fn snippet() -> impl Strategy<Value = String> {
    let common = "[a-z]{1,9}| [a-zA-Z]{1,12}|'(s|t|re|ve|m|ll|d|S|LL)?|[ ]{1,20}|[\\n\\t\\r]{1,3}";
    prop_oneof![
        6 => common,
        2 => "[0-9]{1,5}| [0-9]{1,2}|[.,;:!?(){}=+/*<>|-]{1,6}",
        2 => "[一-龥]{1,12}|[ぁ-ん]{1,12}|[ァ-ヶー]{1,12}|[。、「」！？]{1,2}|[가-힣]{1,6}",
        1 => "[а-яё]{1,9}|[α-ω]{1,9}|[א-ת]{1,9}|[ء-ي]{1,9}|[ก-๛]{1,9}|[ऀ-ॿ]{1,9}",
        1 => "\\s{1,4}|\\p{N}{1,3}|\\p{M}{1,3}|\\p{S}{1,3}|\\p{C}{1,2}",
        1 => "[a-zA-Z_0-9]{14,80}|[ \\n]{14,80}|[=-]{60,70}",
        1 => any::<char>().prop_map(String::from),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn any_text_has_tiktokens_tokens(texts in prop::collection::vec(any::<String>(), 1..4)) {
        assert_equal(&mut encoder(4, 2), texts.iter().map(String::as_str));
    }

    #[test]
    fn writing_of_any_kind_has_tiktokens_tokens(
        texts in prop::collection::vec(prop::collection::vec(snippet(), 1..30), 1..4)
    ) {
        let texts = texts.iter().map(|snippets| snippets.concat()).collect::<Vec<_>>();
        assert_equal(&mut encoder(64, 8), texts.iter().map(String::as_str));
    }
}

#[test]
fn every_character_has_tiktokens_tokens_alone_and_between_others() {
    let mut encoder = Encoder::new();
    let all = ('\0'..=char::MAX).collect::<Vec<_>>();
    for block in all.chunks(4_096) {
        let mut text = String::new();
        for &character in block {
            text.extend([character, ' ', character, 'a', character, '1', character]);
        }
        assert_equal(&mut encoder, [&*text]);
    }
}

#[test]
fn every_token_is_tiktokens_and_encodes_to_itself() {
    let tiktoken = tiktoken_rs::r50k_base_singleton();
    for id in 0..END_OF_TEXT {
        let bytes = TABLES.tokens().get(id).unwrap();
        assert_eq!(bytes, tiktoken.decode_bytes(&[id]).unwrap());
        // tiktoken looks up whole words first, and merges any two tokens that spell a third; this
        // shows that neither is needed.
        let mut ids = Vec::<u32>::new();
        TABLES.encode(bytes, &mut ids);
        assert_eq!(ids, [id]);
    }
    assert_eq!(TABLES.tokens().get(END_OF_TEXT), None);
    assert_eq!(TABLES.tokens().get(u32::MAX), None);
}

#[test]
fn every_two_characters_of_latin_1_have_tiktokens_tokens() {
    let mut encoder = Encoder::new();
    let latin = || '\0'..='\u{ff}';
    for first in latin() {
        let pairs = latin().flat_map(|second| [first, second]).collect::<String>();
        let words = latin().flat_map(|second| [first, second, ' ', 'a']).collect::<String>();
        assert_equal(&mut encoder, [&*pairs, &*words]);
        for second in latin() {
            let pair = String::from_iter([first, second]);
            assert_equal(&mut encoder, [&*pair]);
        }
    }
}

#[test]
fn long_words_have_tiktokens_tokens() {
    let mut encoder = Encoder::new();
    for run in ["a", "ab", " ", "\n", "-", "=", "字", "ー", "ドラゴン", "\u{300}", "the", "0"]
    {
        for len in [1, 15, 16, 17, 48, 49, 64, 65, 100, 1_000, 20_000] {
            let text = run.repeat(usize::div_ceil(len, run.len()));
            assert_equal(&mut encoder, [&*text, &format!(" {text}x"), &text]);
        }
    }
}

#[test]
fn an_encoder_reads_a_text_twice_with_the_same_tokens() {
    let text = include_str!("../../../../../ARCHITECTURE.md");
    assert_equal(&mut Encoder::new(), [text, text]);
}
