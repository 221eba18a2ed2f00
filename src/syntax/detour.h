/*
 * detour.h
 *		Sends the callers of a function of the server to another one.
 */
#ifndef SX_SYNTAX_DETOUR_H
#define SX_SYNTAX_DETOUR_H

/*
 * Replaces the first bytes of the function by a jump, for this process and
 * those it forks.  Returns NULL, or why that can't be done; then nothing has
 * been changed.  The result is a message for errdetail().
 */
extern const char *sx_detour_install(void *function, void *replacement, const char *name);

#endif
