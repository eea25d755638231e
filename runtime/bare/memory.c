/* The only functions that a C compiler or a compiled model may call without being told to. */
#include <stddef.h>

void* memcpy(void* restrict to, const void* restrict from, size_t count) {
  for (size_t i = 0; i < count; ++i) ((unsigned char*)to)[i] = ((const unsigned char*)from)[i];
  return to;
}

void* memmove(void* to, const void* from, size_t count) {
  if ((const unsigned char*)to <= (const unsigned char*)from) return memcpy(to, from, count);
  for (size_t i = count; i > 0; --i) ((unsigned char*)to)[i - 1] = ((const unsigned char*)from)[i - 1];
  return to;
}

void* memset(void* to, int value, size_t count) {
  for (size_t i = 0; i < count; ++i) ((unsigned char*)to)[i] = (unsigned char)value;
  return to;
}
