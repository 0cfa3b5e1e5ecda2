"""Messages of the library reach the sink of their thread, and only while it is there."""

import threading

from minigpt.notices import LOGGER, notices_to


def test_nested_sinks_receive_their_own_messages(caplog):
    outer, inner = [], []
    with notices_to(outer.append):
        LOGGER.info("1")
        with notices_to(inner.append):
            LOGGER.warning("2")
            LOGGER.debug("not shown")
        LOGGER.info("3")
    assert (outer, inner) == (["1", "3"], ["2"])
    assert caplog.records == []


def test_two_threads_have_their_own_sinks():
    """They overlap: the first to enter is the first to leave."""
    first, second = [], []
    second_entered, first_left = threading.Event(), threading.Event()

    def other():
        with notices_to(second.append):
            second_entered.set()
            first_left.wait(10)
            LOGGER.info("second")

    thread = threading.Thread(target=other)
    with notices_to(first.append):
        thread.start()
        second_entered.wait(10)
        LOGGER.info("first")
    first_left.set()
    thread.join(10)
    assert (first, second) == (["first"], ["second"])


def test_a_thread_without_a_sink_logs_as_usual(caplog):
    def other():
        LOGGER.info("below the level")
        LOGGER.warning("as usual")

    with notices_to(lambda line: None):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(10)
    assert [record.getMessage() for record in caplog.records] == ["as usual"]
