#' A hundred short news texts
#'
#' Invented texts for trying out this package, with the name and the columns of the data set in
#' localLLM's tutorials. The texts are not from AG News. No text describes a real event or person,
#' and accuracy on these texts says nothing about accuracy on AG News.
#'
#' @format A data frame with 100 rows, 25 of each class, and columns of text:
#' * `class`: `"World"`, `"Sports"`, `"Business"` or `"Sci/Tech"`.
#' * `title`: a headline.
#' * `description`: a sentence.
#' @examples
#' data("ag_news_sample", package = "llamaherd")
#' table(ag_news_sample$class)
#' ag_news_sample[c(1, 26, 51, 76), ]
"ag_news_sample"
