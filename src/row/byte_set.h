/*
 * byte_set.h
 *		A set of byte strings, in the memory context where it was made.
 */
#ifndef SX_ROW_BYTE_SET_H
#define SX_ROW_BYTE_SET_H

typedef struct SxByteSet SxByteSet;

extern SxByteSet *sx_byte_set_make(uint32 expected);

/* Copies the bytes; false if they were there already. */
extern bool sx_byte_set_add(SxByteSet *set, const char *bytes, uint32 len);
extern bool sx_byte_set_has(const SxByteSet *set, const char *bytes, uint32 len);

#endif
