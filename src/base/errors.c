/*
 * errors.c
 *		The class of a SQLSTATE (design: supervision).
 */
#include "postgres.h"

#include "base/errors.h"

SxErrorClass
sx_error_class(int sqlstate)
{
	switch (ERRCODE_TO_CATEGORY(sqlstate))
	{
		case MAKE_SQLSTATE('0', '8', '0', '0', '0'):	/* connection */
		case MAKE_SQLSTATE('4', '0', '0', '0', '0'):	/* transaction rollback */
		case MAKE_SQLSTATE('5', '3', '0', '0', '0'):	/* insufficient resources, disk full */
		case MAKE_SQLSTATE('5', '8', '0', '0', '0'):	/* files and devices, outside PostgreSQL */
			return SX_ERROR_TRANSIENT;
	}
	switch (sqlstate)
	{
		case ERRCODE_LOCK_NOT_AVAILABLE:
			return SX_ERROR_TRANSIENT;
		case ERRCODE_SX_STATE_SCHEMA:
		case ERRCODE_SX_CHECKPOINT:
		case ERRCODE_SX_SOURCE_SCHEMA:
		case ERRCODE_SX_OUTPUT_MODE:
		case ERRCODE_SX_NOT_STREAMABLE:
		case ERRCODE_SX_SINK_MARK:
		case ERRCODE_SX_DATA_LOST:
		case ERRCODE_SX_FENCED:
			return SX_ERROR_PERMANENT;
	}
	return SX_ERROR_DETERMINISTIC;
}
