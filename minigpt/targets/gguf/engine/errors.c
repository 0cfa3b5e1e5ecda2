/* The message of the last error. */
#include "engine.h"

#include <stdarg.h>

static char message[512];

bool fail(const char *text, ...)
{
    size_t length = 0;
    va_list texts;
    va_start(texts, text);
    for (; text; text = va_arg(texts, const char *))
        for (; *text && length < sizeof message - 1; text++)
            message[length++] = *text;
    va_end(texts);
    message[length] = 0;
    return false;
}

/* Returns the message of the last error, which ends with NUL. */
EXPORT("error_message") const char *error_message(void)
{
    return message;
}
