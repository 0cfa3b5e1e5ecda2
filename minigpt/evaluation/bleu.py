"""BLEU of translations."""


def bleu(translations: list[str], references: list[str]) -> float:
    """Returns corpus BLEU with sacrebleu's defaults (Post 2018): cased, tokenizer "13a", one reference.

    Returns:
      0 to 100.
    """
    # Imported here because only translation needs it.
    import sacrebleu

    # force=True: sacrebleu would warn that sentences ending in " ." look tokenized.
    return sacrebleu.corpus_bleu(translations, [references], force=True).score
