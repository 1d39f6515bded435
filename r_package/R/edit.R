#' Edit answers
#'
#' R's functions that edit texts copy the attributes of what they edit. What they make of a
#' `llamaherd_result` would still have the class, the hashes and the finish reasons of other
#' texts. So this package has functions of the same names that give a plain character vector,
#' with its names, for a `llamaherd_result`; for anything else they call R's own, with the
#' same arguments. Writing into a result, such as `answers[2] <- "no"`, makes it plain, too.
#'
#' @name edit
#' @aliases casefold chartr gsub iconv strtrim sub substr substring tolower toupper trimws
#' @returns A character vector.
#' @seealso [base::sub()], [base::trimws()], [base::toupper()] and so on.
#' @rawNamespace export(casefold, chartr, gsub, iconv, strtrim, sub, substr, substring)
#' @rawNamespace export(tolower, toupper, trimws)
#' @examplesIf !is.null(llamaherd_example_model())
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model)
#' trimws(generate_parallel(context, "The sky is", max_tokens = 4))
#' close(model)
NULL

# With a mark of this name library() does not report what masks R's own functions: these do
# the same, but for results.
.onAttach <- function(libname, pkgname) {
  assign(".conflicts.OK", TRUE, envir = as.environment(paste0("package:", pkgname)))
}

unanswered <- function(x) if (inherits(x, "llamaherd_result")) plain(x) else x

casefold <- function(x, upper = FALSE) base::casefold(unanswered(x), upper)

chartr <- function(old, new, x) base::chartr(old, new, unanswered(x))

gsub <- function(pattern, replacement, x, ...) {
  base::gsub(pattern, replacement, unanswered(x), ...)
}

iconv <- function(x, ...) base::iconv(unanswered(x), ...)

strtrim <- function(x, width) base::strtrim(unanswered(x), width)

sub <- function(pattern, replacement, x, ...) {
  base::sub(pattern, replacement, unanswered(x), ...)
}

substr <- function(x, start, stop) base::substr(unanswered(x), start, stop)

substring <- function(text, first, last = 1000000L) {
  base::substring(unanswered(text), first, last)
}

tolower <- function(x) base::tolower(unanswered(x))

toupper <- function(x) base::toupper(unanswered(x))

trimws <- function(x, ...) base::trimws(unanswered(x), ...)
