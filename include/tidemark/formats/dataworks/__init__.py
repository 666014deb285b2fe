"""Alibaba DataWorks."""
