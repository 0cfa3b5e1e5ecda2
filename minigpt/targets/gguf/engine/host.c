/* Opening a file, and ending what the host did with it: the functions that concern every part of the engine. */
#include "parts.h"
#include "session.h"

/* Opens a portable file that the host wrote to memory from `allocate`. It stays there. */
EXPORT("open_file") bool open_file(const uint8_t *data, uint32_t size)
{
    end_inspection();
    close_batch();
    close_continuation();
    stop_learning();
    if (!open_session(data, size))
        return false;
    if (!open_continuation()) {
        close_session();
        return false;
    }
    keep_memory();
    return true;
}

/* Ends a text or an inspection: its memory is free for the next one. */
EXPORT("finish") void finish(void)
{
    release_texts();
    end_continuation();
    end_inspection();
}
