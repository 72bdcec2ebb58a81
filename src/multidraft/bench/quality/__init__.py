"""Answers graded: are they right, and are a method's as often right as plain decoding's?"""
