"""Texts in every script, as hypothesis draws them."""

from __future__ import annotations

from hypothesis import strategies as st

SAMPLES = (
    "naïve",
    "Straße",
    "İstanbul",
    "Łódź",
    "中文",
    "カタカナ",
    "が",
    "か\u3099",
    "한국어",
    "हिन्दी",
    "ภาษาไทย",
    "ພາສາລາວ",
    "ភាសាខ្មែរ",
    "မြန်မာဘာသာ",
    "বাংলা",
    "தமிழ்",
    "ქართული",
    "አማርኛ",
    "كتـــاب",
    "می\u200cخواهم",
    "שָׁלוֹם",
    "ﬁle",
    "ΣΊΣΥΦΟΣ",
    "Ꭰꭰ",
    "x_y",
    "don't",
    "１２",
    "٤٢",
    "²",
    "ㅋㅋ",
    "ㄱㅏ",
    "👍🏽",
    "data\u200bbase",
)

texts = st.one_of(
    st.text(st.characters(), max_size=40),
    st.lists(
        st.one_of(st.sampled_from(SAMPLES), st.text(st.characters(), max_size=5)), max_size=8
    ).map(" ".join),
)
"""Texts of any characters, and of words in many scripts."""
