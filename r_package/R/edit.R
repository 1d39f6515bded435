#' Edit answers
#'
#' R's functions that edit texts copy the attributes of what they edit. What they make of a
#' `llamaherd_result` would still have the class, the hashes and the finish reasons of other
#' texts. So this package has copies of them that give a plain character vector, with its
#' names, for a `llamaherd_result`; for anything else they are R's own. Writing into a result,
#' such as `answers[2] <- "no"`, makes it plain, too.
#'
#' @name edit
#' @aliases casefold chartr gsub iconv strtrim sub substr substring tolower toupper trimws
#' @returns A character vector.
#' @seealso [base::sub()], [base::trimws()], [base::toupper()] and so on.
#' @rawNamespace export(casefold, chartr, gsub, iconv, strtrim, sub, substr, substring)
#' @rawNamespace export(tolower, toupper, trimws)
#' @examples
#' \dontrun{
#' trimws(generate_parallel(context, prompts))
#' }
NULL

edits <- c(
  "casefold",
  "chartr",
  "gsub",
  "iconv",
  "strtrim",
  "sub",
  "substr",
  "substring",
  "tolower",
  "toupper",
  "trimws"
)

# None of them is generic, but all begin with "if (!is.character(x)) x <- as.character(x)",
# for the sake of factors. A copy whose environment says that a result is not character
# takes that way. library() reports no conflict for copies. They are made when the package
# is loaded, so that they are those of the R that runs.
use_edits <- function(namespace) {
  scope <- new.env(parent = namespace)
  scope$is.character <- function(x) {
    base::is.character(x) && !inherits(x, "llamaherd_result")
  }
  scope$as.character <- function(x, ...) {
    if (inherits(x, "llamaherd_result")) plain(x) else base::as.character(x, ...)
  }
  for (name in edits) {
    copy <- get(name, baseenv())
    environment(copy) <- scope
    assign(name, copy, scope)
    assign(name, copy, namespace)
  }
}
