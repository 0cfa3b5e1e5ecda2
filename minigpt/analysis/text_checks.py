def check_text(corpus, config):
    return []
