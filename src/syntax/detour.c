/*
 * detour.c
 *		Sends the callers of a function of the server to another one.
 *
 *		is there a jump for this processor?            else refuse
 *		is it the function that we think, long enough? else refuse
 *		does it begin as compilers begin a function?   else refuse
 *		do at least two calls near it lead to it?      else refuse (inlined)
 *		copy its page, put the jump in, make the copy executable
 *		move the copy over the page, in one system call
 *
 * Memory is never writable and executable at a time, and the server's own page
 * is never writable at all: where the kernel forbids such changes (SELinux,
 * PR_SET_MDWE), the copy can't be made executable, and everything stays as it
 * was.  Writing in place and making the page executable again would kill the
 * process there.
 */
#include "postgres.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include "syntax/detour.h"

/* Callers in the same source file are about this near. */
#define CALLER_DISTANCE		(64 * 1024)
#define CALLERS_WANTED		2

typedef struct Code
{
	const unsigned char *start;
	const unsigned char *end;
} Code;

/* What follows needs mremap() and, for the size of a function, dladdr1(). */
#if defined(__linux__) && defined(__GLIBC__)

#if defined(__x86_64__)

#define JUMP_LENGTH		16
#define CALL_LENGTH		5
#define CALL_STEP		1

/* endbr64; movabs $to, %rax; jmp *%rax.  A function without varargs gets nothing in rax. */
static void
write_jump(unsigned char *at, uint64 to)
{
	static const unsigned char endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

	memcpy(at, endbr64, 4);
	at[4] = 0x48;
	at[5] = 0xb8;
	memcpy(at + 6, &to, 8);
	at[14] = 0xff;
	at[15] = 0xe0;
}

/* A push, a move between registers, room on the stack, or a test of a global. */
static bool
begins_like_a_function(const unsigned char *at)
{
	static const unsigned char endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

	if (memcmp(at, endbr64, 4) == 0)
		at += 4;
	if (at[0] >= 0x50 && at[0] <= 0x57)
		return true;
	if (at[0] == 0x41 && at[1] >= 0x50 && at[1] <= 0x57)
		return true;
	if (at[0] == 0x48 && (at[1] == 0x83 || at[1] == 0x81) && at[2] == 0xec)
		return true;
	if ((at[0] == 0x48 || at[0] == 0x49) && (at[1] == 0x89 || at[1] == 0x8b) && at[2] >= 0xc0)
		return true;
	return at[0] == 0x80 && at[1] == 0x3d;
}

/* call rel32, or jmp rel32 of a tail call */
static bool
calls(const unsigned char *at, const unsigned char *to)
{
	int32		distance;

	if (at[0] != 0xe8 && at[0] != 0xe9)
		return false;
	memcpy(&distance, at + 1, 4);
	return at + CALL_LENGTH + distance == to;
}

#elif defined(__aarch64__)

#define JUMP_LENGTH		20
#define CALL_LENGTH		4
#define CALL_STEP		4

/* bti c; ldr x16, .+8; br x16; .quad to.  x16 is free between functions. */
static void
write_jump(unsigned char *at, uint64 to)
{
	static const uint32 code[] = {0xd503245f, 0x58000050, 0xd61f0200};

	memcpy(at, code, sizeof(code));
	memcpy(at + sizeof(code), &to, 8);
}

/* [bti c | paciasp], then stp x29, x30, [sp, #-n]! or sub sp, sp, #n, or adrp */
static bool
begins_like_a_function(const unsigned char *at)
{
	uint32		code;

	memcpy(&code, at, 4);
	if (code == 0xd503245f || code == 0xd503233f)
		memcpy(&code, at + 4, 4);
	return (code & 0xffc07fff) == 0xa9807bfd ||
		(code & 0xff8003ff) == 0xd10003ff ||
		(code & 0x9f000000) == 0x90000000;
}

/* bl, or b of a tail call */
static bool
calls(const unsigned char *at, const unsigned char *to)
{
	uint32		code;

	memcpy(&code, at, 4);
	if ((code & 0x7c000000) != 0x14000000)
		return false;
	return at + ((int32) (code << 6) >> 6) * (int64) 4 == to;
}

#endif							/* processor */

#endif							/* Linux */

#ifdef JUMP_LENGTH

/* dl_iterate_phdr callback: finds the executable segment that holds code->start. */
static int
find_segment(struct dl_phdr_info *info, size_t size, void *arg)
{
	Code	   *code = arg;

	for (int i = 0; i < info->dlpi_phnum; i++)
	{
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		const unsigned char *start = (unsigned char *) (info->dlpi_addr + segment->p_vaddr);

		if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) != 0 &&
			code->start >= start && code->start < start + segment->p_memsz)
		{
			code->start = start;
			code->end = start + segment->p_memsz;
			return 1;
		}
	}
	return 0;
}

static int
count_callers(const unsigned char *function, Code code)
{
	const unsigned char *at = code.start;
	const unsigned char *end = code.end - CALL_LENGTH;
	int			n = 0;

	if (function - at > CALLER_DISTANCE)
		at = function - CALLER_DISTANCE;
	if (end - function > CALLER_DISTANCE)
		end = function + CALLER_DISTANCE;
	for (; at <= end; at += CALL_STEP)
		if (calls(at, function))
			n++;
	return n;
}

/* Why the function can't be replaced; NULL if it can. */
static const char *
check_function(const unsigned char *function, const char *name)
{
	Dl_info		info;
	ElfW(Sym)  *symbol = NULL;
	Code		code = {function, NULL};

	if (dladdr1(function, &info, (void **) &symbol, RTLD_DL_SYMENT) == 0 ||
		symbol == NULL || info.dli_saddr != function ||
		strcmp(info.dli_sname, name) != 0)
		return psprintf("Function %s was not found in the server.", name);
	if (symbol->st_size < JUMP_LENGTH)
		return psprintf("Function %s is too short to be replaced.", name);
	if (!begins_like_a_function(function))
		return psprintf("Function %s begins in an unknown way; another library may have replaced it.",
						name);
	if (dl_iterate_phdr(find_segment, &code) == 0 ||
		count_callers(function, code) < CALLERS_WANTED)
		return psprintf("Function %s has been compiled into its callers.", name);
	return NULL;
}

const char *
sx_detour_install(void *function, void *replacement, const char *name)
{
	long		page_size = sysconf(_SC_PAGESIZE);
	unsigned char *page = (unsigned char *) ((uintptr_t) function & ~(page_size - 1));
	size_t		offset = (unsigned char *) function - page;
	size_t		length = TYPEALIGN(page_size, offset + JUMP_LENGTH);
	const char *refusal = check_function(function, name);
	unsigned char *copy;

	if (refusal != NULL)
		return refusal;

	copy = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (copy == MAP_FAILED)
		return psprintf("Could not get memory for changed code: %s.", strerror(errno));
	memcpy(copy, page, length);
	write_jump(copy + offset, (uint64) (uintptr_t) replacement);
	__builtin___clear_cache((char *) copy, (char *) copy + length);

	if (mprotect(copy, length, PROT_READ | PROT_EXEC) != 0 ||
		mremap(copy, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, page) == MAP_FAILED)
	{
		refusal = psprintf("The operating system does not allow changed code: %s.",
						   strerror(errno));
		munmap(copy, length);
		return refusal;
	}
	__builtin___clear_cache((char *) page, (char *) page + length);
	return NULL;
}

#else

const char *
sx_detour_install(void *function, void *replacement, const char *name)
{
	return "It is built for Linux on x86-64 and aarch64 only.";
}

#endif
